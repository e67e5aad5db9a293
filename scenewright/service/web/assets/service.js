// Requests to the service; an error carries its words on how to mend it.

async function answered(reply) {
  if (reply.ok) return reply;
  let detail = `the service answered ${reply.status}: reload the page`;
  try {
    detail = (await reply.json()).detail ?? detail;
  } catch {
    // The reply was no problem document; its status is all there is to tell.
  }
  throw new Error(detail);
}

const LOST = "the service cannot be reached: see whether it runs, then try again";

async function ask(url, options) {
  let reply;
  try {
    reply = await fetch(url, options);
  } catch {
    throw new Error(LOST);
  }
  return answered(reply);
}

export async function text(url) {
  return (await ask(url, { cache: "no-store" })).text();
}

export async function post(url, body) {
  const options = { method: "POST" };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  return (await ask(url, options)).json();
}

// Names a request, so that sending it twice does it once.
export function freshKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
