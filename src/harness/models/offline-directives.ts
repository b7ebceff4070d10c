import { parseJson } from '../../text/json.ts';
import { isTooDeep, maxInputDepth } from './tool-input.ts';

/** What the lines of a message that begin with `/think`, `/tool` and so on tell the offline model to do. */
export interface Directives {
  /** The lines that are not directives. */
  question: string;
  think: string | undefined;
  calls: RequestedCall[];
  say: string | undefined;
  words: number | undefined;
  delayMs: number;
  fail: FailureCode | undefined;
  /** What was wrong with directives, for the answer. */
  complaints: string[];
}

export interface RequestedCall {
  tool: string;
  input: unknown;
}

export type FailureCode = (typeof failureCodes)[number];

const failureCodes = ['unauthorized', 'rate_limited', 'overloaded', 'broken_stream'] as const;
const maxWords = 50_000;
const maxDelayMs = 60_000;

export function parseDirectives(text: string): Directives {
  const directives: Directives = {
    question: text,
    think: undefined,
    calls: [],
    say: undefined,
    words: undefined,
    delayMs: 0,
    fail: undefined,
    complaints: [],
  };
  // A short cut: this runs for every message, and hardly any has a directive.
  if (!text.startsWith('/') && !text.includes('\n/')) return directives;
  const question: string[] = [];
  for (const line of text.split('\n')) {
    if (!line.startsWith('/') || !readDirective(line.trimEnd(), directives)) question.push(line);
  }
  directives.question = question.join('\n').trim();
  return directives;
}

/** False when the line is an ordinary one that merely begins with a slash. */
function readDirective(line: string, directives: Directives): boolean {
  const [name, rest] = cutAtSpace(line);
  switch (name) {
    case '/think':
      directives.think = directives.think === undefined ? rest : `${directives.think}\n${rest}`;
      return true;
    case '/say':
      directives.say = directives.say === undefined ? rest : `${directives.say}\n${rest}`;
      return true;
    case '/tool':
      readCall(rest, directives);
      return true;
    case '/handoff':
      if (rest === '') directives.complaints.push('/handoff needs the name of a sub-agent.');
      else directives.calls.push({ tool: 'handoff', input: { agent: rest } });
      return true;
    case '/words':
      directives.words = readCount(name, rest, maxWords, directives);
      return true;
    case '/delay':
      directives.delayMs = readCount(name, rest, maxDelayMs, directives) ?? 0;
      return true;
    case '/fail':
      directives.fail = failureCodes.find((code) => code === rest);
      if (directives.fail === undefined) directives.complaints.push(`/fail takes one of ${failureCodes.join(', ')}.`);
      return true;
    default:
      return false;
  }
}

function readCall(rest: string, directives: Directives): void {
  const [tool, json] = cutAtSpace(rest);
  if (tool === '') {
    directives.complaints.push('/tool needs the name of a tool.');
    return;
  }
  const input = json === '' ? {} : parseJson(json);
  if (input === undefined) directives.complaints.push(`The input of /tool ${tool} is not valid JSON: ${json}`);
  else if (isTooDeep(input)) directives.complaints.push(`The input of /tool ${tool} nests deeper than ${maxInputDepth} levels.`);
  else directives.calls.push({ tool, input });
}

function readCount(name: string, rest: string, max: number, directives: Directives): number | undefined {
  const count = Number(rest);
  if (rest !== '' && Number.isInteger(count) && count >= 0 && count <= max) return count;
  directives.complaints.push(`${name} takes a whole number from 0 to ${max}.`);
  return undefined;
}

function cutAtSpace(text: string): [string, string] {
  const space = text.indexOf(' ');
  return space === -1 ? [text, ''] : [text.slice(0, space), text.slice(space + 1).trim()];
}
