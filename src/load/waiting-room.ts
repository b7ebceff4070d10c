import { ServiceError } from '../errors.ts';
import { lookAtSockets } from './arrivals.ts';

export interface RoomLimits {
  /** Requests that are worked on at once: enough that their writes share commits, few enough that nobody waits long for the next step. */
  places: number;
  /** How many of those one organization takes while others are here too. */
  placesBesideOthers: number;
  /** With a line longer than this it floods: what it has under way is what a neighbour waits behind, so it goes one by one. */
  floodsFrom: number;
  /** After a flood of this long, which no burst is, it also pauses after each: a millisecond for every `waitingPerPauseMs` in line. */
  pausesAfterMs: number;
  waitingPerPauseMs: number;
  maxPauseMs: number;
  /** Whoever is worked on for longer waits for something other than us, and no longer counts. */
  placeLastsMs: number;
  /** When the first of a line has waited this long, the line is too long to join. */
  patienceMs: number;
  maxLine: number;
  maxWaiting: number;
}

export const defaultRoom: RoomLimits = {
  places: 128,
  placesBesideOthers: 4,
  floodsFrom: 8,
  pausesAfterMs: 2_000,
  waitingPerPauseMs: 24,
  maxPauseMs: 8,
  placeLastsMs: 2_000,
  patienceMs: 1_000,
  maxLine: 2_048,
  maxWaiting: 8_192,
};

/** An organization counts as being here for this long after its last request. */
const hereMs = 2_000;
const lookEveryMs = 50;

/** Somebody who is worked on. Leaving twice is leaving once. */
export interface Place {
  leave(): void;
}

interface Waiting {
  since: number;
  /** Nobody waits for the answer any more. */
  isGone(): boolean;
  proceed(place: Place): void;
  refuse(error: ServiceError): void;
}

interface Organization {
  id: number;
  inside: number;
  line: Waiting[];
  pausesUntil: number;
  /** Since when its line has been that of a flood, and when it last was. */
  floodsSince: number;
  floodedAt: number;
}

/**
 * Where requests wait when more come than can be worked on. Each organization has a line of its own and they take turns,
 * so that a flood is felt by whoever makes it; a line that has become too long is closed with a 503. Turns that have been
 * admitted hold no place: they wait for their model, and what they still cost slows down who comes next.
 */
export class WaitingRoom {
  /** How many were turned away. */
  shed = 0;
  private readonly limits: RoomLimits;
  private readonly organizations = new Map<number, Organization>();
  /** Those with somebody waiting, whose turn it is first. */
  private readonly lines = new Set<Organization>();
  private readonly inside = new Set<HeldPlace>();
  private waitingCount = 0;
  private lastId: number | undefined;
  private sharedUntil = 0;
  private isCalling = false;
  private timer: NodeJS.Timeout | undefined;
  /**
   * Made once, since an error costs as much as all else about a refusal. Not all name the same second: who is sent away
   * together comes back apart.
   */
  private readonly refusals = [1, 2, 3].map(
    (retryAfterSeconds) => new ServiceError('unavailable', 'The server is overloaded.', { retryAfterSeconds }),
  );

  constructor(limits: RoomLimits = defaultRoom) {
    this.limits = limits;
  }

  get waiting(): number {
    return this.waitingCount;
  }

  get working(): number {
    return this.inside.size;
  }

  /** A place at once, or when it is this organization's turn. Throws what `refusalOf` says. */
  enter(orgId: number, isGone: () => boolean): Place | Promise<Place> {
    const now = performance.now();
    this.noteHere(orgId, now);
    const organization = this.organizations.get(orgId) ?? newOrganization(orgId);
    if (organization.line.length === 0 && this.hasRoom(organization, now)) return this.seat(organization, now);
    const refusal = this.refuse(organization, now);
    if (refusal !== undefined) throw refusal;
    return new Promise((proceed, refuse) => {
      organization.line.push({ since: now, isGone, proceed, refuse });
      this.organizations.set(orgId, organization);
      this.lines.add(organization);
      this.waitingCount += 1;
      this.timer ??= setInterval(() => this.look(), lookEveryMs).unref();
    });
  }

  private noteHere(orgId: number, now: number): void {
    if (orgId === this.lastId) return;
    if (this.lastId !== undefined) this.sharedUntil = now + hereMs;
    this.lastId = orgId;
  }

  private hasRoom(organization: Organization, now: number): boolean {
    if (this.inside.size >= this.limits.places) return false;
    if (now >= this.sharedUntil) return true;
    const { inside, line, pausesUntil } = organization;
    return line.length > this.limits.floodsFrom ? inside === 0 && now >= pausesUntil : inside < this.limits.placesBesideOthers;
  }

  private seat(organization: Organization, now: number): Place {
    organization.inside += 1;
    this.organizations.set(organization.id, organization);
    const place = new HeldPlace(this, organization, now);
    this.inside.add(place);
    return place;
  }

  /** Called by a place that is left, or that was held for too long. */
  free(place: HeldPlace): void {
    if (!this.inside.delete(place)) return;
    const now = performance.now();
    place.organization.inside -= 1;
    this.pause(place.organization, now);
    this.forget(place.organization, now);
    if (this.waitingCount === 0 || this.isCalling) return;
    // Those who are called one after another must not keep the door from being answered.
    this.isCalling = true;
    void lookAtSockets().then(() => this.callNext());
  }

  private pause(organization: Organization, now: number): void {
    const { floodsFrom, pausesAfterMs, waitingPerPauseMs, maxPauseMs } = this.limits;
    if (organization.line.length > floodsFrom) {
      if (now - organization.floodedAt > hereMs) organization.floodsSince = now;
      organization.floodedAt = now;
    }
    if (now >= this.sharedUntil || now - organization.floodsSince < pausesAfterMs) return;
    const pauseMs = Math.min(maxPauseMs, Math.floor(organization.line.length / waitingPerPauseMs));
    if (pauseMs === 0) return;
    organization.pausesUntil = now + pauseMs;
    setTimeout(() => this.callNext(), pauseMs);
  }

  /** One that floods comes in waves: between them it is not forgotten. */
  private forget({ id, inside, line, floodedAt }: Organization, now: number): void {
    if (inside === 0 && line.length === 0 && now - floodedAt > hereMs) this.organizations.delete(id);
  }

  /** What one more request of this organization is told, and counts as, when its line is too long to join; undefined when it is not. */
  refusalOf(orgId: number): ServiceError | undefined {
    const organization = this.organizations.get(orgId);
    if (organization === undefined || organization.line.length === 0) return undefined;
    const now = performance.now();
    this.noteHere(orgId, now);
    return this.refuse(organization, now);
  }

  /** Whether `refusalOf` has one to give, for somebody who may be refused for another reason first. */
  isClosedTo(orgId: number): boolean {
    const organization = this.organizations.get(orgId);
    return organization !== undefined && organization.line.length > 0 && this.isTooLong(organization, performance.now());
  }

  private refuse(organization: Organization, now: number): ServiceError | undefined {
    if (!this.isTooLong(organization, now)) return undefined;
    this.shed += 1;
    return this.refusals[this.shed % this.refusals.length];
  }

  private isTooLong({ line }: Organization, now: number): boolean {
    const { patienceMs, maxLine, maxWaiting } = this.limits;
    const waitedMs = now - (line[0]?.since ?? now);
    return waitedMs > patienceMs || line.length >= maxLine || this.waitingCount >= maxWaiting;
  }

  /** One of each line in turn, while there is room for it. */
  private callNext(): void {
    this.isCalling = false;
    const now = performance.now();
    for (let isDone = false; !isDone; ) {
      isDone = true;
      for (const organization of [...this.lines]) {
        if (!this.hasRoom(organization, now)) continue;
        const next = organization.line.shift();
        this.lines.delete(organization);
        if (next === undefined) continue;
        this.waitingCount -= 1;
        if (organization.line.length > 0) this.lines.add(organization);
        isDone = false;
        if (!next.isGone()) {
          next.proceed(this.seat(organization, now));
          continue;
        }
        next.refuse(new ServiceError('unavailable', 'The client has left.'));
        this.forget(organization, now);
      }
    }
    if (this.waitingCount > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private look(): void {
    const longAgo = performance.now() - this.limits.placeLastsMs;
    for (const place of this.inside) {
      if (place.since > longAgo) break;
      this.free(place);
    }
    this.callNext();
  }
}

function newOrganization(id: number): Organization {
  return { id, inside: 0, line: [], pausesUntil: 0, floodsSince: 0, floodedAt: Number.NEGATIVE_INFINITY };
}

class HeldPlace implements Place {
  readonly organization: Organization;
  readonly since: number;
  private readonly room: WaitingRoom;

  constructor(room: WaitingRoom, organization: Organization, since: number) {
    this.room = room;
    this.organization = organization;
    this.since = since;
  }

  leave(): void {
    this.room.free(this);
  }
}
