import { useConnection } from '../server/connection.ts';

/** A line at the top while the server cannot be reached, and for a moment when it is back. */
export function Banner() {
  const connection = useConnection();
  if (connection === 'ok') return <div role="status" />;
  const lost = connection === 'lost';
  return (
    <div role="status" className={`px-4 py-1.5 text-center ${lost ? 'bg-warn-tint text-warn' : 'bg-tint text-accent'}`}>
      {lost ? 'The server cannot be reached. Retrying; nothing is lost.' : 'Connected again. Everything you missed has been loaded.'}
    </div>
  );
}
