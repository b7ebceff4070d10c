import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { withoutFinalDots } from '../text/final-dots.ts';

/**
 * Which hosts, ports and addresses a request to a customer's URL may not reach. Each function returns the reason for a
 * refusal, worded to follow "it ...", or undefined.
 */
export interface Rules {
  allowPrivate: boolean;
}

export function refusedUrl(url: URL, rules: Rules): string | undefined {
  const form = refusedForm(url);
  if (form !== undefined) return form;
  if (url.protocol === 'http:' && !rules.allowPrivate) return 'must use HTTPS';
  if (refusedPorts.has(Number(url.port))) return `must not use port ${url.port}, which belongs to another kind of service`;
  const host = hostOf(url.hostname);
  if (host === '') return 'must name a host';
  if (isIP(host) !== 0) return refusedAddress(host, rules);
  return refusedName(host, rules);
}

/** The rules that also hold for origins that the operator chose. */
export function refusedForm(url: URL): string | undefined {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must be an https:// URL';
  if (url.username !== '' || url.password !== '') return 'must not carry a user name or password';
  return undefined;
}

export function refusedAddress(address: string, rules: Rules): string | undefined {
  if (!ipaddr.isValid(address)) return 'does not resolve to an address';
  const parsed = ipaddr.parse(address);
  if (metadataAddresses.has(parsed.toString())) return 'is a metadata service';
  const range = parsed.range();
  if (embeddingRanges.has(range)) return `is an IPv6 address that stands for another one (${range})`;
  // ipaddr.js calls `::a.b.c.d` unicast; `::` and `::1`, which are in the same network, have ranges of their own.
  if (range === 'unicast' && parsed.kind() === 'ipv6' && parsed.match(ipv4Compatible))
    return 'is an IPv6 address that stands for another one';
  if (rules.allowPrivate) return undefined;
  if (range !== 'unicast') return `is not on the public internet (${rangeNames[range] ?? range})`;
  // ipaddr.js calls everything unicast that it has no name for; IANA assigns public addresses only here.
  if (parsed.kind() === 'ipv6' && !parsed.match(globalUnicast)) return 'is not on the public internet (reserved)';
  return undefined;
}

/** From a URL's spelling of a host (`[::1]`, `Example.com.`) to the one that a resolver takes. */
export function hostOf(hostname: string): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return withoutFinalDots(hostname.toLowerCase());
}

function refusedName(host: string, rules: Rules): string | undefined {
  if (metadataNames.has(host)) return 'is a metadata service';
  if (rules.allowPrivate) return undefined;
  if (host === 'localhost' || host.endsWith('.localhost')) return 'is this machine';
  if (!host.includes('.') || internalSuffixes.some((suffix) => host.endsWith(suffix))) return 'is an internal name';
  return undefined;
}

// Azure's 168.63.129.16 looks public, but always reaches the agent of the virtual machine's host.
const metadataAddresses = new Set([
  '169.254.169.254',
  '169.254.170.2',
  '169.254.170.23',
  '168.63.129.16',
  '100.100.100.200',
  '169.254.42.42',
  '169.254.0.23',
  '100.96.0.96',
  '192.0.0.192',
  'fd00:ec2::254',
  'fd00:ec2::23',
  'fd20:ce::254',
  'fd00:c1::a9fe:a9fe',
  'fd00:42::42',
]);
const metadataNames = new Set(['metadata.google.internal', 'metadata.goog', 'instance-data.ec2.internal', 'metadata.tencentyun.com']);
const internalSuffixes = ['.local', '.internal', '.localdomain', '.lan', '.home', '.corp', '.intranet', '.private', '.home.arpa', '.onion'];

// IPv6 addresses that embed an IPv4 address: refused even where private addresses are allowed, because nobody needs them.
const embeddingRanges = new Set(['ipv4Mapped', 'rfc6145', 'rfc6052', '6to4', 'teredo']);
const ipv4Compatible = ipaddr.IPv6.parseCIDR('::/96');
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

const rangeNames: Record<string, string> = {
  carrierGradeNat: 'carrier-grade NAT',
  linkLocal: 'link-local',
  uniqueLocal: 'private',
  deprecatedSiteLocal: 'private',
};

/**
 * Ports of well-known services that a forged HTTP request could talk to. None is in the range from which systems assign free
 * ports, and none is a usual port of a web server.
 */
const refusedPorts: ReadonlySet<number> = new Set([
  1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117,
  119, 123, 135, 137, 138, 139, 143, 161, 162, 179, 389, 427, 445, 464, 465, 500, 512, 513, 514, 515, 526, 530, 531, 532, 540, 543, 544,
  548, 554, 556, 563, 587, 593, 601, 631, 636, 873, 989, 990, 993, 995, 1080, 1099, 1433, 1434, 1521, 1719, 1720, 1723, 1883, 2049, 2181,
  2375, 2376, 2379, 2380, 3128, 3260, 3268, 3269, 3306, 3389, 3659, 4045, 4190, 4369, 5060, 5061, 5432, 5433, 5671, 5672, 5900, 5901, 5984,
  5985, 5986, 6000, 6379, 6380, 6443, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9092, 9200, 9300, 10080, 10250, 10255, 11211,
  15672, 25672, 26379, 27017, 27018, 27019, 28015,
]);
