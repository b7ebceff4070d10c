import { overloaded, ServiceError } from '../errors.ts';

export interface RoomLimits {
  /** Requests that are processed at once: enough that their writes share commits, few enough that each is soon continued. */
  places: number;
  /** How many of those places one organization may hold while other organizations send requests too. */
  placesBesideOthers: number;
  /** An organization with a longer line than this is flooding: its requests go one at a time, so that others wait behind one at most. */
  floodsFrom: number;
  /**
   * An organization that has flooded for this long, which is more than a burst, also pauses after each request: a millisecond for
   * every `waitingPerPauseMs` requests in its line.
   */
  pausesAfterMs: number;
  waitingPerPauseMs: number;
  maxPauseMs: number;
  /** A request that takes longer than this waits for something outside of this process: it no longer counts as being processed. */
  placeLastsMs: number;
  /** When the first request of a line has waited this long, further requests of its organization are refused. */
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

/** For how long places stay shared after two organizations sent requests, and for how long a flood may stop and count as the same one. */
const recentMs = 2_000;
const checkEveryMs = 50;

/** Held by a request that is being processed. Leaving it a second time does nothing. */
export interface Place {
  leave(): void;
}

interface HeldPlace extends Place {
  organization: Organization;
  since: number;
}

interface Waiting {
  since: number;
  /** The client has disconnected. */
  isGone(): boolean;
  proceed(place: Place): void;
  refuse(error: ServiceError): void;
}

interface Organization {
  id: number;
  inside: number;
  line: Waiting[];
  pausesUntil: number;
  /** When the current flood began, and when the line was last as long as that of a flood. */
  floodsSince: number;
  floodedAt: number;
}

/**
 * Where requests wait when more come than can be processed. Each organization has a line of its own and the lines take turns,
 * so that a flood slows down only the organization that causes it. When a line is too long, further requests of its organization
 * are refused with a 503. A turn that has been admitted holds no place: it mostly waits for its model.
 */
export class WaitingRoom {
  /** How many requests were refused. */
  shed = 0;
  private readonly limits: RoomLimits;
  private readonly organizations = new Map<number, Organization>();
  /** The organizations with a line, in the order in which they are served. */
  private readonly lines = new Set<Organization>();
  private readonly inside = new Set<HeldPlace>();
  private waitingCount = 0;
  /** The organization of the last request. */
  private lastOrgId: number | undefined;
  /** Until when several organizations count as active, so that none of them may take all places. */
  private sharedUntil = 0;
  private isCalling = false;
  private timer: NodeJS.Timeout | undefined;
  /**
   * Made once, because creating an error costs as much as the rest of a refusal. They differ in `Retry-After`, so that clients
   * that are refused together do not all retry in the same second.
   */
  private readonly refusals = [1, 2, 3].map((retryAfterSeconds) => overloaded(retryAfterSeconds));

  constructor(limits: RoomLimits = defaultRoom) {
    this.limits = limits;
  }

  get waiting(): number {
    return this.waitingCount;
  }

  get working(): number {
    return this.inside.size;
  }

  /** A place: at once if there is room, otherwise when it is this organization's turn. Throws what `refusalOf` returns. */
  enter(orgId: number, isGone: () => boolean): Place | Promise<Place> {
    const now = performance.now();
    this.noteRequest(orgId, now);
    const organization = this.organizations.get(orgId) ?? newOrganization(orgId);
    if (organization.line.length === 0 && this.hasRoom(organization, now)) return this.seat(organization, now);
    const refusal = this.refuse(organization, now);
    if (refusal !== undefined) throw refusal;
    return new Promise((proceed, refuse) => {
      organization.line.push({ since: now, isGone, proceed, refuse });
      this.organizations.set(orgId, organization);
      this.lines.add(organization);
      this.waitingCount += 1;
      this.timer ??= setInterval(() => this.check(), checkEveryMs).unref();
    });
  }

  /** Refuses a request of this organization, and counts it as refused, if its line is too long; otherwise undefined. */
  refusalOf(orgId: number): ServiceError | undefined {
    const organization = this.organizations.get(orgId);
    if (organization === undefined || organization.line.length === 0) return undefined;
    const now = performance.now();
    this.noteRequest(orgId, now);
    return this.refuse(organization, now);
  }

  /** Whether `refusalOf` would refuse, without counting: the request may be refused for another reason first. */
  isClosedTo(orgId: number): boolean {
    const organization = this.organizations.get(orgId);
    return organization !== undefined && organization.line.length > 0 && this.isTooLong(organization, performance.now());
  }

  private noteRequest(orgId: number, now: number): void {
    if (orgId === this.lastOrgId) return;
    if (this.lastOrgId !== undefined) this.sharedUntil = now + recentMs;
    this.lastOrgId = orgId;
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
    const place: HeldPlace = { organization, since: now, leave: () => this.free(place) };
    this.inside.add(place);
    return place;
  }

  /** Called when a request leaves its place, and for a request that has held it for too long. */
  private free(place: HeldPlace): void {
    if (!this.inside.delete(place)) return;
    const now = performance.now();
    place.organization.inside -= 1;
    this.pause(place.organization, now);
    this.forget(place.organization, now);
    if (this.waitingCount === 0 || this.isCalling) return;
    // New requests come first: while waiting ones are let in one after another, their clients would be neither answered nor refused.
    this.isCalling = true;
    setImmediate(() => this.callNext());
  }

  private pause(organization: Organization, now: number): void {
    const { floodsFrom, pausesAfterMs, waitingPerPauseMs, maxPauseMs } = this.limits;
    if (organization.line.length > floodsFrom) {
      if (now - organization.floodedAt > recentMs) organization.floodsSince = now;
      organization.floodedAt = now;
    }
    if (now >= this.sharedUntil || now - organization.floodsSince < pausesAfterMs) return;
    const pauseMs = Math.min(maxPauseMs, Math.floor(organization.line.length / waitingPerPauseMs));
    if (pauseMs === 0) return;
    organization.pausesUntil = now + pauseMs;
    setTimeout(() => this.callNext(), pauseMs);
  }

  /** A flood comes in waves: an organization whose line is empty between two of them is still remembered as flooding. */
  private forget({ id, inside, line, floodedAt }: Organization, now: number): void {
    if (inside === 0 && line.length === 0 && now - floodedAt > recentMs) this.organizations.delete(id);
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

  /** Lets in one request of each line in turn, for as long as there is room. */
  private callNext(): void {
    this.isCalling = false;
    const now = performance.now();
    let hasCalled: boolean;
    do {
      hasCalled = false;
      for (const organization of [...this.lines]) {
        if (!this.hasRoom(organization, now)) continue;
        const next = organization.line.shift();
        this.lines.delete(organization);
        if (next === undefined) continue;
        this.waitingCount -= 1;
        if (organization.line.length > 0) this.lines.add(organization);
        hasCalled = true;
        if (!next.isGone()) {
          next.proceed(this.seat(organization, now));
          continue;
        }
        next.refuse(new ServiceError('unavailable', 'The client has left.'));
        this.forget(organization, now);
      }
    } while (hasCalled);
    if (this.waitingCount > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private check(): void {
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
