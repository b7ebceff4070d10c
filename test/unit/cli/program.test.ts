// The command line itself: what its help says, and what it takes from a person.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { Command } from 'commander';
import { day, jsonObject, url, wholeNumberOrNone } from '../../../src/cli/given.ts';
import { harmlessStream, shortened, table } from '../../../src/cli/print.ts';
import { program } from '../../../src/cli/program.ts';

test('every command says what it is for, and every option what it means', () => {
  const silent: string[] = [];
  const look = (command: Command, path: string) => {
    if (command.description() === '') silent.push(path);
    for (const option of command.options) if (option.description === '') silent.push(`${path} ${option.flags}`);
    for (const next of command.commands) look(next, `${path} ${next.name()}`);
  };
  look(program, 'parley');
  assert.deepEqual(silent, []);
  assert.match(program.version() ?? '', /^\d+\.\d+\.\d+$/);
});

test('a cap is a whole number or none, and nothing else is taken for none', () => {
  assert.equal(wholeNumberOrNone('--cap', '500'), 500);
  assert.equal(wholeNumberOrNone('--cap', 'none'), null);
  for (const given of ['', ' ', 'abc', '1.5', '-1', 'NaN', '1e400', 'null'])
    assert.throws(() => wholeNumberOrNone('--cap', given), /^Error: --cap: must be a whole number or none/, given);
});

test('days, URLs and files are checked before anything is sent', async (t) => {
  assert.equal(day('--from', '2026-02-28'), '2026-02-28');
  for (const given of ['monday', '2026-13-01', '2026-02-30', '28.2.2026'])
    assert.throws(() => day('--from', given), /--from: must be a day/, given);
  assert.equal(url('https://example.com/x').host, 'example.com');
  assert.throws(() => url('example'), /example is not a URL/);
  const folder = mkdtempSync(join(tmpdir(), 'parley-cli-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'release.json');
  await assert.rejects(jsonObject(file), /release\.json cannot be read: ENOENT/);
  for (const [text, says] of [
    ['{x', /release\.json is not JSON/],
    ['[]', /must hold a JSON object/],
    ['null', /must hold a JSON object/],
  ] as const) {
    writeFileSync(file, text);
    await assert.rejects(jsonObject(file), says);
  }
  writeFileSync(file, '{"instructions":"Be brief."}');
  assert.deepEqual(await jsonObject(file), { instructions: 'Be brief.' });
});

test('columns are as wide as a terminal shows them: Chinese, Japanese, Korean and emoji take two columns, combining characters none', () => {
  const names = ['demo', '東京', '서울', 'ｶﾅカナ', 'Ａ', '👩‍💻🇯🇵', '❤️', 'e\u0301', '\u200bx', '𠮷'];
  const rows = names.map((name) => ({ name, scopes: ['a\nb', 'c'] }));
  assert.deepEqual(table(rows, ['name', 'scopes'], '').split('\n'), [
    'NAME    SCOPES',
    'demo    a b,c',
    '東京    a b,c',
    '서울    a b,c',
    'ｶﾅカナ  a b,c',
    'Ａ      a b,c',
    '👩‍💻🇯🇵    a b,c',
    '❤️      a b,c',
    'e\u0301       a b,c',
    '\u200bx       a b,c',
    '𠮷      a b,c',
  ]);
});

test('a text is cut between characters, and says so', () => {
  assert.equal(shortened('four', 4), 'four');
  assert.equal(shortened('👩‍💻🇯🇵e\u0301', 3), '👩‍💻🇯🇵e\u0301');
  assert.equal(shortened('👩‍💻🇯🇵e\u0301x', 2), '👩‍💻🇯🇵…');
});

test('an export that is shown on a terminal cannot control it, also where a character arrives in two pieces', async () => {
  const bytes = Buffer.from('action,name\r\nagent.created,"\u009b2J\u001b[2J ä"\r\n');
  const cut = bytes.indexOf(0xc2) + 1;
  const shown = await Readable.from(harmlessStream([bytes.subarray(0, cut), bytes.subarray(cut)])).toArray();
  assert.equal(shown.join(''), 'action,name\nagent.created,"\uFFFD2J\uFFFD[2J ä"\n');
});
