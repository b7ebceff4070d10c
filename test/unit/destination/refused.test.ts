import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGuard } from '../../../src/destination/guard.ts';
import { ServiceError } from '../../../src/errors.ts';

const neverResolve = async (): Promise<never> => {
  throw new Error('no name may be resolved here');
};
const publicAddress = [{ address: '93.184.215.14', family: 4 }];

const refusedUrls: [what: string, url: string][] = [
  ['plain HTTP', 'http://example.com/'],
  ['another scheme', 'ftp://example.com/'],
  ['a file', 'file:///etc/passwd'],
  ['data', 'data:text/plain,hello'],
  ['something that is no URL', 'example.com/hook'],
  ['a user name', 'https://user@example.com/'],
  ['a password', 'https://user:secret@example.com/'],
  ['a password alone', 'https://:secret@example.com/'],
  ['a user name that looks like the host', 'https://example.com@127.0.0.1/'],
  ['loopback', 'https://127.0.0.1/'],
  ['another loopback', 'https://127.8.9.1/'],
  ['loopback in decimal', 'https://2130706433/'],
  ['loopback in octal', 'https://0177.0.0.1/'],
  ['loopback in hexadecimal', 'https://0x7f.0.0.1/'],
  ['loopback in one hexadecimal number', 'https://0x7f000001/'],
  ['loopback shortened', 'https://127.1/'],
  ['loopback in full-width digits', 'https://１２７.０.０.１/'],
  ['loopback with ideographic stops', 'https://127。0。0。1/'],
  ['loopback percent-encoded', 'https://%31%32%37.0.0.1/'],
  ['loopback with a trailing dot', 'https://127.0.0.1./'],
  ['the unspecified address', 'https://0.0.0.0/'],
  ['zero', 'https://0/'],
  ['private 10/8', 'https://10.1.2.3/'],
  ['private 172.16/12', 'https://172.31.255.1/'],
  ['private 192.168/16', 'https://192.168.0.1/'],
  ['link-local', 'https://169.254.1.1/'],
  ['metadata', 'https://169.254.169.254/latest/meta-data/'],
  ['metadata in decimal', 'https://2852039166/'],
  ['metadata of Azure', 'https://168.63.129.16/'],
  ['metadata of Alibaba', 'https://100.100.100.200/'],
  ['carrier-grade NAT', 'https://100.64.0.1/'],
  ['multicast', 'https://224.0.0.1/'],
  ['broadcast', 'https://255.255.255.255/'],
  ['reserved 240/4', 'https://240.0.0.1/'],
  ['documentation', 'https://192.0.2.1/'],
  ['benchmarking', 'https://198.18.0.1/'],
  ['protocol assignments', 'https://192.0.0.192/'],
  ['IPv6 loopback', 'https://[::1]/'],
  ['IPv6 unspecified', 'https://[::]/'],
  ['IPv6 link-local', 'https://[fe80::1]/'],
  ['IPv6 unique local', 'https://[fd12:3456::1]/'],
  ['IPv6 site-local', 'https://[fec0::1]/'],
  ['IPv6 metadata', 'https://[fd00:ec2::254]/'],
  ['IPv6 multicast', 'https://[ff02::1]/'],
  ['IPv6 documentation', 'https://[2001:db8::1]/'],
  ['IPv4-mapped loopback', 'https://[::ffff:127.0.0.1]/'],
  ['IPv4-mapped public', 'https://[::ffff:93.184.215.14]/'],
  ['IPv4-compatible', 'https://[::7f00:1]/'],
  ['IPv4-translated', 'https://[::ffff:0:127.0.0.1]/'],
  ['NAT64', 'https://[64:ff9b::7f00:1]/'],
  ['local NAT64', 'https://[64:ff9b:1::7f00:1]/'],
  ['6to4', 'https://[2002:7f00:1::]/'],
  ['Teredo', 'https://[2001:0:7f00:1::]/'],
  ['unassigned IPv6', 'https://[4000::1]/'],
  ['localhost', 'https://localhost/'],
  ['localhost in capitals', 'https://LOCALHOST/'],
  ['localhost with a trailing dot', 'https://localhost./'],
  ['localhost with two trailing dots', 'https://localhost../'],
  ['a name below localhost', 'https://api.localhost/'],
  ['a .local name', 'https://printer.local/'],
  ['a .internal name', 'https://db.internal/'],
  ['metadata by name', 'https://metadata.google.internal/'],
  ['a .home.arpa name', 'https://nas.home.arpa/'],
  ['a name without a dot', 'https://intranet/'],
  ...['localdomain', 'lan', 'home', 'corp', 'intranet', 'private', 'onion'].map((suffix): [string, string] => [
    `a .${suffix} name`,
    `https://db.${suffix}/`,
  ]),
  ...[22, 25, 53, 110, 143, 389, 445, 587, 993, 995, 1433, 2375, 3306, 3389, 5432, 6379, 9200, 11211, 27017].map(
    (port): [string, string] => [`port ${port}`, `https://example.com:${port}/`],
  ),
];

for (const [what, url] of refusedUrls) {
  test(`${what} is refused before any name is resolved`, async () => {
    const policy = { allowPrivate: false, resolve: neverResolve };
    await assert.rejects(createGuard(policy).check(url), isRefusal);
    await assert.rejects(createGuard(policy).fetch(url), isRefusal);
  });
}

for (const url of ['https://example.com/', 'https://example.com:8443/hook?x=1', 'https://93.184.215.14/', 'https://[2606:4700::1111]/']) {
  test(`${url} is accepted`, async () => {
    await createGuard({ allowPrivate: false, resolve: async () => publicAddress }).check(url);
  });
}

const resolvedTo = [
  '127.0.0.1',
  '10.0.0.7',
  '169.254.169.254',
  '100.64.1.1',
  '::1',
  'fe80::1',
  '::ffff:10.0.0.1',
  '64:ff9b::a00:1',
  'fd00::1',
  'nonsense',
];
for (const address of resolvedTo) {
  test(`a name that resolves to ${address} is refused, even beside a public address`, async () => {
    const resolve = async () => [...publicAddress, { address, family: address.includes(':') ? 6 : 4 }];
    const policy = { allowPrivate: false, resolve };
    await assert.rejects(createGuard(policy).check('https://example.com/'), isRefusal);
    await assert.rejects(createGuard(policy).fetch('https://example.com/'), isRefusal);
  });
}

test('a name that does not resolve yet can be configured', async () => {
  const resolve = async () => {
    throw new Error('EAI_AGAIN');
  };
  await createGuard({ allowPrivate: false, resolve }).check('https://example.com/');
});

test('where private destinations are allowed, plain HTTP and private addresses pass', async () => {
  const policy = { allowPrivate: true, resolve: neverResolve };
  for (const url of ['http://127.0.0.1:11434/v1', 'http://localhost:3000/', 'http://ollama:11434/', 'https://10.0.0.1/', 'http://[::1]/']) {
    await createGuard(policy).check(url);
  }
});

test('where private destinations are allowed, metadata, disguised addresses, credentials and foreign ports stay refused', async () => {
  const policy = { allowPrivate: true, resolve: neverResolve };
  const urls = [
    'http://169.254.169.254/',
    'http://[fd00:ec2::254]/',
    'http://[fd00:ec2::23]/v1/',
    'http://[fd20:ce::254]/',
    'http://metadata.google.internal/',
    'http://metadata.goog/',
    'http://instance-data.ec2.internal/',
    'http://169.254.170.2/v2/',
    'http://169.254.170.23/v1/',
    'http://168.63.129.16/',
    'http://100.100.100.200/',
    'http://169.254.42.42/conf',
    'http://169.254.0.23/latest/meta-data/',
    'http://100.96.0.96/latest/',
    'http://metadata.tencentyun.com/latest/meta-data/',
    'http://192.0.0.192/latest/',
    'http://[fd00:c1::a9fe:a9fe]/opc/v2/',
    'http://[fd00:42::42]/conf',
    'http://[::ffff:169.254.169.254]/',
    'http://[::169.254.169.254]/',
    'http://[::ffff:0:169.254.169.254]/',
    'http://[64:ff9b::a9fe:a9fe]/',
    'http://[2002:7f00:1::]/',
    'http://[2001:0:7f00:1::]/',
    'http://./',
    'http://user:secret@127.0.0.1/',
    'http://127.0.0.1:6379/',
    'file:///etc/passwd',
  ];
  for (const url of urls) {
    await assert.rejects(createGuard(policy).check(url), isRefusal, url);
    await assert.rejects(createGuard(policy).fetch(url), isRefusal, url);
  }
});

test('a refusal names the setting that would lift its reason, what would remain, and never the credentials', async () => {
  const policy = {
    allowPrivate: false,
    liftedBy: 'PARLEY_ALLOW_PRIVATE_UPSTREAMS',
    resolve: async () => [{ address: '10.0.0.1', family: 4 }],
  };
  const hint = ' (PARLEY_ALLOW_PRIVATE_UPSTREAMS=1 allows private addresses and plain HTTP)';
  const refusals: [url: string, reason: string][] = [
    ['http://10.0.0.1/?token=hunter2', `10.0.0.1 is refused: it must use HTTPS${hint}`],
    ['https://10.0.0.1/', `10.0.0.1 is refused: it is not on the public internet (private)${hint}`],
    ['https://100.64.0.1/', `100.64.0.1 is refused: it is not on the public internet (carrier-grade NAT)${hint}`],
    ['https://[fe80::1]/', `[fe80::1] is refused: it is not on the public internet (link-local)${hint}`],
    ['https://[fd00::1]/', `[fd00::1] is refused: it is not on the public internet (private)${hint}`],
    ['https://[fec0::1]/', `[fec0::1] is refused: it is not on the public internet (private)${hint}`],
    ['https://localhost/', `localhost is refused: it is this machine${hint}`],
    ['https://api.example.com/', `api.example.com is refused: it is not on the public internet (private)${hint}`],
    ['https://user:hunter2@10.0.0.1/', '10.0.0.1 is refused: it must not carry a user name or password'],
    ['file:///etc/passwd', 'file: is refused: it must be an https:// URL'],
    ['https://169.254.169.254/', '169.254.169.254 is refused: it is a metadata service'],
    ['http://169.254.169.254/', `169.254.169.254 is refused: it must use HTTPS${hint}, and it is a metadata service`],
    [
      'http://10.0.0.1:22/',
      `10.0.0.1:22 is refused: it must use HTTPS${hint}, and it must not use port 22, which belongs to another kind of service`,
    ],
    ['https://10.0.0.1:22/', '10.0.0.1:22 is refused: it must not use port 22, which belongs to another kind of service'],
  ];
  for (const [url, reason] of refusals)
    await assert.rejects(createGuard(policy).check(url), { message: `The destination ${reason}`, code: 'destination_refused' });
});

function isRefusal(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.kind === 'invalid' && error.code === 'destination_refused';
}
