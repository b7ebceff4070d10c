import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../../src/config.ts';
import { welcome } from '../../../src/start/welcome.ts';

const seeded = { apiKey: 'svc_live_key', operatorKey: 'svc_operator_0123456789abcdef', ownerToken: 'inv_1' };

function shown(settings: Record<string, string>): { link: string | undefined; command: string | undefined } {
  const text = welcome({ config: loadConfig(settings), seeded, warnings: [] }, 8080);
  return { link: /^Become the owner: +(.*)$/m.exec(text)?.[1], command: /^curl -s (.*) -H "Authorization: /m.exec(text)?.[1] };
}

const chat = '/demo/assistant/v1/chat/completions';

test('the link and the line of the first start lead to the hosts that answer them', () => {
  const starts: [settings: Record<string, string>, link: string, command: string][] = [
    [{}, 'http://127.0.0.1:8080/dashboard/join?token=inv_1', `http://127.0.0.1:8080${chat}`],
    [{ HOST: '::' }, 'http://127.0.0.1:8080/dashboard/join?token=inv_1', `http://127.0.0.1:8080${chat}`],
    [{ HOST: '::1' }, 'http://[::1]:8080/dashboard/join?token=inv_1', `http://[::1]:8080${chat}`],
    [
      { PARLEY_PUBLIC_URL: 'https://parley.example.com/' },
      'https://parley.example.com/dashboard/join?token=inv_1',
      `http://127.0.0.1:8080${chat}`,
    ],
    [
      { PARLEY_PUBLIC_URL: 'https://agents.example.com', PARLEY_MANAGEMENT_HOST: 'manage.example.com' },
      'https://manage.example.com/dashboard/join?token=inv_1',
      `http://127.0.0.1:8080${chat}`,
    ],
    [
      { PARLEY_AGENT_HOST: 'agents.example.com', PARLEY_MANAGEMENT_HOST: 'manage.example.com' },
      'http://manage.example.com:8080/dashboard/join?token=inv_1',
      `http://127.0.0.1:8080${chat} -H "Host: agents.example.com"`,
    ],
  ];
  for (const [settings, link, command] of starts) assert.deepEqual(shown(settings), { link, command });
});

test('the first start shows the operator key that it made, and not one that was set: what a container prints is collected', () => {
  const shows = (settings: Record<string, string>) =>
    welcome({ config: loadConfig(settings), seeded, warnings: [] }, 8080).includes(seeded.operatorKey);
  assert.equal(shows({}), true);
  assert.equal(shows({ PARLEY_OPERATOR_KEY: seeded.operatorKey }), false);
});
