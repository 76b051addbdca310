/** An HTTP address without its user and password, which `fetch` refuses, and the header that has them. */
export function splitCredentials(written: string) {
  const url = new URL(written);
  const [user, password] = [url.username, url.password].map(decodeURIComponent);
  url.username = url.password = '';
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  return { url: url.href, headers: user === '' ? {} : { authorization } };
}
