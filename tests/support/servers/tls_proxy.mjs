// A TLS server that requires client certificates, and passes connections to a plain port. It prints
// its URL, and the name in the certificate of each client.
import { readFileSync } from 'node:fs';
import net from 'node:net';
import tls from 'node:tls';

const [key, cert, ca] = ['KEY', 'CERT', 'CA'].map((name) => readFileSync(process.env[name]));
const options = { key, cert, ca, requestCert: true, rejectUnauthorized: true };
const server = tls.createServer(options, (client) => {
  console.log(`client ${client.getPeerCertificate().subject.CN}`);
  const target = net.connect(Number(process.env.TARGET), '127.0.0.1');
  for (const [one, other] of [[client, target], [target, client]]) {
    one.on('error', () => other.destroy());
    one.pipe(other);
  }
});
// A client that is refused ends its connection.
server.on('tlsClientError', () => {});
server.listen(0, '127.0.0.1', () => console.log(`https://127.0.0.1:${server.address().port}`));
