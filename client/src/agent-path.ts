/** `/org/agent` as a path. Checked here, because the server would answer a malformed one with a 404 that explains nothing. */
export function agentPath(agent: string): string {
  const [org, slug, ...more] = agent.split('/');
  if (!org || !slug || more.length > 0) throw new TypeError(`The agent must be written org/agent, not "${agent}"`);
  return `/${encodeURIComponent(org)}/${encodeURIComponent(slug)}`;
}
