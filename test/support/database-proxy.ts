// A proxy in front of PostgreSQL that loses what a test wants lost: connections, or the answer to a statement that was carried out.
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { Owner } from './app.ts';
import type { TestDatabase } from './engine.ts';

export interface DatabaseProxy {
  /** The same database, through the proxy; removing it is left to its owner. */
  database: TestDatabase;
  /** Whether the answer to this request is lost: PostgreSQL carries the request out, and the connection breaks before the client is told. */
  loses: (request: string) => boolean;
  /** If not 0: the client is cut off at once, and the request reaches PostgreSQL so many milliseconds later. */
  strands: (request: string) => number;
  /** How many answers were lost because of `loses`. */
  readonly lost: number;
  /** Ends every connection that is open now. */
  cutAll(): void;
  /** Passes nothing more on the open connections, and everything on new ones, as when a machine has failed and another took its place. */
  silenceAll(): void;
  /** Ends every connection and refuses others until `comeBack`, like a server that restarts. */
  leave(): Promise<void>;
  comeBack(): Promise<void>;
  /** Passes nothing in either direction until `release`, like a network that drops packets. */
  hold(): void;
  release(): void;
}

/** The message ReadyForQuery outside of a transaction: the request is committed. */
const readyForQuery = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

export async function startDatabaseProxy(owner: Owner, database: TestDatabase): Promise<DatabaseProxy> {
  const target = new URL(database.settings.DATABASE_URL ?? '');
  const open = new Set<Link>();
  let isHeld = false;
  let lost = 0;
  const listener = createServer((client) => {
    const link = new Link(client, connect(Number(target.port), target.hostname), proxy);
    link.onLost = () => {
      lost += 1;
    };
    link.onEnd = () => open.delete(link);
    open.add(link);
    if (isHeld) link.hold();
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  if (address === null || typeof address === 'string') throw new Error('The proxy has no port');
  const through = new URL(target);
  through.port = String(address.port);
  const proxy: DatabaseProxy = {
    database: { ...database, settings: { ...database.settings, DATABASE_URL: through.href } },
    loses: () => false,
    strands: () => 0,
    get lost() {
      return lost;
    },
    cutAll() {
      for (const link of open) link.cut();
    },
    silenceAll() {
      for (const link of open) link.hold();
    },
    async leave() {
      const closed = once(listener, 'close');
      listener.close();
      proxy.cutAll();
      await closed;
    },
    async comeBack() {
      listener.listen(address.port, '127.0.0.1');
      await once(listener, 'listening');
    },
    hold() {
      isHeld = true;
      proxy.silenceAll();
    },
    release() {
      isHeld = false;
      for (const link of open) link.release();
    },
  };
  owner.after(async () => {
    listener.close();
    proxy.cutAll();
  });
  return proxy;
}

/** One connection through the proxy. */
class Link {
  onLost = () => {};
  onEnd = () => {};
  private readonly client: Socket;
  private readonly server: Socket;
  private isLosing = false;
  private isStranded = false;
  /** The last bytes of the answer that is being lost: its end may be split over two chunks. */
  private tail: Buffer = Buffer.alloc(0);

  constructor(client: Socket, server: Socket, proxy: Pick<DatabaseProxy, 'loses' | 'strands'>) {
    this.client = client;
    this.server = server;
    client.on('data', (chunk) => {
      const request = chunk.toString('latin1');
      const strandedMs = proxy.strands(request);
      if (strandedMs > 0) return this.strand(chunk, strandedMs);
      if (!this.isLosing && proxy.loses(request)) this.isLosing = true;
      server.write(chunk);
    });
    server.on('data', (chunk) => {
      if (!this.isLosing) return void client.write(chunk);
      this.tail = Buffer.concat([this.tail, chunk]).subarray(-64);
      if (!this.tail.includes(readyForQuery)) return;
      this.onLost();
      this.cut();
    });
    for (const socket of [client, server]) {
      socket.on('error', () => {});
      socket.on('close', () => {
        if (!this.isStranded) this.cut();
      });
    }
  }

  private strand(request: Buffer, milliseconds: number): void {
    this.isStranded = true;
    this.client.destroy();
    setTimeout(() => {
      this.server.on('data', (chunk) => {
        if (chunk.includes(readyForQuery)) this.cut();
      });
      this.server.write(request);
    }, milliseconds);
  }

  hold(): void {
    this.client.pause();
    this.server.pause();
  }

  release(): void {
    this.client.resume();
    this.server.resume();
  }

  cut(): void {
    this.client.destroy();
    this.server.destroy();
    this.onEnd();
  }
}
