import { Transform } from 'node:stream';
import type { FastifyRequest, preParsingHookHandler } from 'fastify';
import { overloaded } from '../../../errors.ts';
import { machineShare } from '../../../machine-share.ts';

const MiB = 1024 * 1024;

/** A smaller body is not counted. Measured: a connection takes 24 KB, and 78 KB while 60 kB of a body wait for their end. */
const countedFrom = 64 * 1024;

interface BodyLimits {
  /** Bytes of the bodies of one organization's requests. */
  organization: number;
  /** And of all of them. */
  total: number;
}

/**
 * Bounds the memory for the bodies of requests, from their first byte until the response: without it, one browser that sends many large
 * uploads, each all but its last byte, could use up the memory of the process. Only bytes that came count, not those that were announced,
 * which cost a client nothing. A body for which there is no room is 503.
 */
export function limitBodyMemory({ organization, total }: BodyLimits = bodyLimits(machineShare().memory)): preParsingHookHandler {
  const held = new Map<number, number>();
  let heldInAll = 0;
  const hold = (orgId: number, bytes: number) => {
    const ofOrganization = (held.get(orgId) ?? 0) + bytes;
    if (ofOrganization > 0) held.set(orgId, ofOrganization);
    else held.delete(orgId);
    heldInAll += bytes;
  };
  return (request, reply, payload, done) => {
    const orgId = request.principal?.organization.id;
    if (orgId === undefined || !isCounted(request)) return done(null, payload);
    let bytes = 0;
    let isOver = false;
    const counted = new Transform({
      transform(chunk: Buffer, _encoding, next) {
        if (isOver) return next(null, chunk);
        if ((held.get(orgId) ?? 0) + chunk.length > organization || heldInAll + chunk.length > total) return next(overloaded());
        bytes += chunk.length;
        hold(orgId, chunk.length);
        next(null, chunk);
      },
    });
    reply.raw.once('close', () => {
      isOver = true;
      hold(orgId, -bytes);
    });
    // Not every route reads a body: nobody else may listen, and an error that nobody hears ends the process.
    counted.on('error', () => {});
    payload.once('error', (error: Error) => counted.destroy(error));
    // As Node does with a body that nobody reads, what is left of it is discarded after the response.
    reply.raw.once('finish', () => payload.unpipe(counted).resume());
    done(null, payload.pipe(counted));
  };
}

/**
 * Measured with uploads of 13.9 MB: together they take 3.2 times their size while they are parsed, decoded and stored. With 512 MiB in
 * all, 35 at once ended a process that may use 1 GiB of memory. However little there is, one upload always fits.
 */
export function bodyLimits(memory: number): BodyLimits {
  const total = Math.max(32 * MiB, Math.min(512 * MiB, memory / 8));
  return { organization: Math.min(128 * MiB, total / 2), total };
}

function isCounted({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) >= countedFrom;
}
