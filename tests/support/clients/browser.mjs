// A browser without a person: opens a URL, follows redirects with cookies, submits every form as it
// is, and prints the last page. `user_code=CODE` fills a field of that name.

const [start, ...fields] = process.argv.slice(2);
const values = Object.fromEntries(fields.map((field) => field.split("=", 2)));
const cookies = new Map();

async function open(url, options = {}) {
  for (let step = 0; step < 30; step += 1) {
    const jar = cookies.get(new URL(url).host) ?? new Map();
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, { ...options, redirect: "manual", headers: { ...options.headers, cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [name, value] = line.split(";")[0].split(/=(.*)/s);
      if (value) jar.set(name, value);
      else jar.delete(name);
    }
    cookies.set(new URL(url).host, jar);
    const location = response.headers.get("location");
    if (!location) return { url, status: response.status, text: await response.text() };
    [url, options] = [new URL(location, url).href, {}];
  }
  throw new Error(`too many redirects: ${url}`);
}

let page = await open(start);
for (let form; page.status < 400 && (form = /<form[^>]*>[\s\S]*?<\/form>/.exec(page.text)?.[0]); ) {
  const attribute = (text, name) => new RegExp(`\\b${name}="([^"]*)"`).exec(text)?.[1];
  const body = new URLSearchParams();
  for (const [field] of form.matchAll(/<input[^>]*>/g)) {
    const name = attribute(field, "name");
    if (name) body.set(name, values[name] ?? attribute(field, "value") ?? "");
  }
  const action = new URL(attribute(form, "action") ?? page.url, page.url).href;
  page = await open(action, { method: "POST", body, headers: { "content-type": "application/x-www-form-urlencoded" } });
}
console.log(`${page.status} ${page.text}`);
