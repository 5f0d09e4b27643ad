//! The PROXY protocol, version 2: the header with which a load balancer begins a connection to
//! report the client's address. <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;

use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The length of the fixed part of the header, in bytes: signature, version, command, family and
/// length of the rest.
const FIXED_BYTES: usize = 16;
/// The maximum length of the rest of the header, in bytes: addresses, and fields that are ignored.
const MAX_REST_BYTES: usize = 4 << 10;

/// Reads the header of a connection, and returns the address of the client. Returns `peer` if the
/// proxy itself opened the connection for a health check, or does not know the client.
///
/// # Errors
/// The connection does not begin with a header of version 2, or the header is too long.
pub(super) async fn read_client(
    stream: &mut (impl AsyncRead + Unpin),
    peer: SocketAddr,
) -> Result<SocketAddr> {
    let invalid = |reason: &str| {
        let text = format!("no header of the PROXY protocol, version 2: {reason}");
        Error::new(ErrorKind::InvalidData, text)
    };
    let mut header = vec![0u8; FIXED_BYTES];
    stream.read_exact(&mut header).await?;
    let rest = match header.as_slice() {
        [.., high, low] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    };
    if rest > MAX_REST_BYTES {
        return Err(invalid("it is too long"));
    }
    header.resize(FIXED_BYTES + rest, 0);
    if let Some(rest) = header.get_mut(FIXED_BYTES..) {
        stream.read_exact(rest).await?;
    }
    let config = ParseConfig { include_tlvs: false, allow_v1: false, allow_v2: true };
    let (header, _) =
        ProxyHeader::parse(&header, config).map_err(|error| invalid(&error.to_string()))?;
    Ok(header.proxied_address().map_or(peer, |address| address.source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy_header::ProxiedAddress;

    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    async fn read(bytes: &[u8]) -> Result<(SocketAddr, Vec<u8>)> {
        let mut stream = bytes;
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let client = read_client(&mut stream, peer).await?;
        Ok((client, stream.to_vec()))
    }

    #[tokio::test]
    async fn header_names_the_client() {
        for client in ["203.0.113.7:5", "[2001:db8::7]:5"] {
            let client: SocketAddr = client.parse().unwrap();
            let mut bytes = vec![0u8; 256];
            let header = ProxyHeader::with_address(ProxiedAddress::stream(client, client));
            let length = header.encode_to_slice_v2(&mut bytes).unwrap();
            bytes.truncate(length);
            bytes.extend_from_slice(b"GET /");
            assert_eq!(read(&bytes).await.unwrap(), (client, b"GET /".to_vec()));
            for end in 0..length {
                assert!(read(&bytes[..end]).await.is_err(), "{end}");
            }
        }
        let local = [SIGNATURE, b"\x20\0\0\0GET /"].concat();
        let (client, rest) = read(&local).await.unwrap();
        assert_eq!((client.to_string().as_str(), rest.as_slice()), ("10.0.0.1:1", &b"GET /"[..]));
    }

    #[tokio::test]
    async fn other_beginnings_are_refused() {
        let long = [SIGNATURE, b"\x21\x11\xff\xff", &[0; 1 << 16]].concat();
        let short_addresses = [SIGNATURE, b"\x21\x11\0\x04\x01\x02\x03\x04"].concat();
        for bytes in [
            b"GET /healthz HTTP/1.1\r\n\r\n".as_slice(),
            b"PROXY TCP4 203.0.113.7 10.0.0.2 5 80\r\nGET / HTTP/1.1\r\n\r\n",
            &long,
            &short_addresses,
            &[0; 64],
        ] {
            assert!(read(bytes).await.is_err(), "{:?}", &bytes[..16]);
        }
    }
}
