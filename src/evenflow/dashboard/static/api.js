// The server's answers; what went wrong is an Error whose message is a sentence.

export async function get(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  let answer;
  try {
    answer = await fetch(`api/${path}${text ? `?${text}` : ""}`);
  } catch {
    throw new Error("The page's server does not answer. Is `evenflow dashboard` still running?");
  }
  const type = answer.headers.get("content-type") || "";
  const body = type.includes("json") ? await answer.json() : { error: await answer.text() };
  if (!answer.ok) {
    const detail = typeof body.error === "string" ? body.error : "";
    throw new Error(detail || `The server answered with ${answer.status}.`);
  }
  return body;
}

// Calls `take` with every overview that the server pushes, and `say` with whether it does.
export function follow(take, say) {
  const stream = new EventSource("api/updates");
  stream.onopen = () => say(true);
  stream.onmessage = (event) => {
    say(true);
    take(JSON.parse(event.data));
  };
  stream.onerror = () => {
    say(false);
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => follow(take, say), 3000);
  };
}
