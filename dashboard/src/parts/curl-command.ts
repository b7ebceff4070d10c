/** A command for a terminal that sends the body to a path of this server. The body must not contain a single quote. */
export function curlCommand(method: 'POST' | 'PUT', path: string, body: object): string {
  return `curl -s -X ${method} ${window.location.origin}${path} -H "Authorization: Bearer $PARLEY_API_KEY" -H "Content-Type: application/json" -d '${JSON.stringify(body)}'`;
}
