/** `/org/agent`, checked here so that a slip is an error with words and not a 404. */
export function agentPath(agent: string): string {
  const [org, slug, ...more] = agent.split('/');
  if (!org || !slug || more.length > 0) throw new TypeError(`The agent must be written org/agent, not "${agent}"`);
  return `/${encodeURIComponent(org)}/${encodeURIComponent(slug)}`;
}
