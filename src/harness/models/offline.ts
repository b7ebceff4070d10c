import { setImmediate } from 'node:timers/promises';
import { isRecord } from '../../text/json.ts';
import { type Model, type ModelCall, ModelError, type ModelPart, type ModelTool } from '../model.ts';
import { sleep } from '../sleep.ts';
import { estimateUsage, promptTokens, valueLength } from './estimate-tokens.ts';
import { type Directives, type FailureCode, parseDirectives, type RequestedCall } from './offline-directives.ts';
import { readTurn, type TurnSoFar } from './offline-turn.ts';

const provider = 'offline';
const contextLimit = 128_000;
/** After this many words, the event loop gets to do other work. */
const wordsInOneGo = 512;

/** A model that needs no key and no network, and always gives the same answer to the same conversation. */
export function createOfflineModel(name: string): Model {
  return { provider, name, contextLimit, stream: (call, signal) => play(writeScript(call), call, signal) };
}

/** Everything that one call will produce, decided before the first word is sent. */
interface Script {
  parts: ModelPart[];
  delayMs: number;
  /** Thrown after the parts, where else the answer would finish. */
  failure?: ModelError;
}

async function* play(script: Script, call: ModelCall, signal: AbortSignal): AsyncGenerator<ModelPart> {
  const { parts, delayMs } = script;
  let words = 0;
  for (const part of parts) {
    if (part.type === 'text-delta' || part.type === 'reasoning-delta') {
      if (delayMs > 0 && words > 0) await sleep(delayMs, signal);
      words += 1;
      if (words % wordsInOneGo === 0) await setImmediate();
    }
    if (signal.aborted) throw signal.reason;
    call.received += lengthOf(part);
    yield part;
  }
  if (script.failure !== undefined) throw script.failure;
  signal.throwIfAborted();
  yield { type: 'finish', usage: estimateUsage(call) };
}

function writeScript(call: ModelCall): Script {
  const inputTokens = promptTokens(call);
  if (inputTokens > contextLimit) {
    const message = `The conversation has ${inputTokens} tokens; the offline model takes ${contextLimit}.`;
    return { parts: [], delayMs: 0, failure: new ModelError('context_length_exceeded', provider, message) };
  }
  const turn = readTurn(call.messages);
  const directives = parseDirectives(turn.text);
  const { delayMs } = directives;
  const parts: ModelPart[] = [];
  const isFirstStep = turn.calls.length === 0;
  if (isFirstStep && directives.think !== undefined) {
    for (const text of splitWords(directives.think)) parts.push({ type: 'reasoning-delta', text });
    parts.push({ type: 'reasoning-end' });
  }
  const calls = isFirstStep ? chooseCalls(directives, call.tools) : [];
  for (const { tool, input } of calls) parts.push({ type: 'tool-call', tool, input });
  if (calls.length === 0 && directives.fail !== undefined) {
    if (directives.fail === 'broken_stream') {
      for (const text of splitWords('This answer breaks off in the')) parts.push({ type: 'text-delta', text });
    }
    return { parts, delayMs, failure: failureOf(directives.fail) };
  }
  for (const text of calls.length === 0 ? chooseWords(directives, turn, call.tools) : []) parts.push({ type: 'text-delta', text });
  return { parts, delayMs };
}

function lengthOf(part: ModelPart): number {
  if (part.type === 'tool-call') return part.tool.length + valueLength(part.input);
  return 'text' in part ? part.text.length : 0;
}

/** All calls of a message are made in one step, so that it can be tried to approve several at once. */
function chooseCalls(directives: Directives, tools: readonly ModelTool[]): RequestedCall[] {
  if (asksAboutFiles(directives) && isOffered('files', tools)) return [{ tool: 'files', input: { operation: 'list' } }];
  return directives.calls.filter((call) => isOffered(call.tool, tools));
}

function asksAboutFiles({ calls, say, words, fail, complaints, question }: Directives): boolean {
  const isPlain = calls.length === 0 && complaints.length === 0 && say === undefined && words === undefined && fail === undefined;
  return isPlain && /\b(files?|workspace)\b/i.test(question);
}

function chooseWords(directives: Directives, turn: TurnSoFar, tools: readonly ModelTool[]): string[] {
  const complaints = [...directives.complaints];
  for (const { tool } of directives.calls) {
    // A tool that was called in this turn may not be offered any more: after a handoff there are other tools.
    if (turn.calls.some((call) => call.tool === tool) || isOffered(tool, tools)) continue;
    const names = tools.map((offered) => offered.name).join(', ');
    complaints.push(`There is no tool named ${tool} here. ${names === '' ? 'There are no tools.' : `There are: ${names}.`}`);
  }
  if (complaints.length > 0) return splitWords([...complaints, ...turn.calls.map(describeCall)].join('\n'));
  if (directives.say !== undefined) return splitWords(directives.say);
  if (directives.words !== undefined) return fillerWords(directives.words);
  if (directives.calls.length > 0) return splitWords(turn.calls.map(describeCall).join('\n'));
  // The only call without a directive is the listing of the files that a question was about.
  const listing = turn.calls.map(({ result }) => `\nWorkspace: ${result?.output ?? 'not known'}`).join('');
  return splitWords(plainAnswer(directives.question, turn) + listing);
}

function describeCall({ tool, input, result }: TurnSoFar['calls'][number]): string {
  if (result === undefined) return `${tool} gave no result.`;
  if (result.isError) return `${tool} failed: ${result.output}`;
  if (tool !== 'handoff') return `${tool} answered: ${result.output}`;
  const agent = isRecord(input) && 'agent' in input ? String(input.agent) : 'another sub-agent';
  return `This is ${agent}, who takes over here.`;
}

function plainAnswer(question: string, turn: TurnSoFar): string {
  const asked = question.length > 300 ? `${question.slice(0, 300).toWellFormed()}...` : question;
  const attached = turn.files.length === 0 ? '' : ` You attached ${turn.files.join(', ')}.`;
  return `You said: "${asked}".${attached} This is turn ${turn.number()} of our conversation.`;
}

function failureOf(code: FailureCode): ModelError {
  switch (code) {
    case 'unauthorized':
      return new ModelError('byok_key_rejected', provider, 'The offline model was told to reject its key.');
    case 'rate_limited':
      return new ModelError('rate_limited', provider, 'The offline model was told to be rate limited.', { retryAfterSeconds: 1 });
    case 'overloaded':
      return new ModelError('overloaded', provider, 'The offline model was told to be overloaded.', { retryAfterSeconds: 1 });
    case 'broken_stream':
      return new ModelError('broken_stream', provider, 'The offline model was told to break off its answer.');
  }
}

function isOffered(name: string, tools: readonly ModelTool[]): boolean {
  return tools.some((tool) => tool.name === name);
}

const filler = 'a slow river carries small boats past the old mill and under nine stone bridges toward the sea'.split(' ');

function fillerWords(count: number): string[] {
  const words: string[] = [];
  for (let index = 1; index <= count; index += 1) {
    const word = filler[(index - 1) % filler.length] ?? '';
    words.push(index === count ? word : `${word} `);
  }
  return words;
}

/** Each word with the white space after it, so that the pieces joined are the text. By hand: a regular expression costs ten times more. */
function splitWords(text: string): string[] {
  const words: string[] = [];
  let start = 0;
  for (let index = 1; index < text.length; index += 1) {
    if (text.charCodeAt(index) > 32 && text.charCodeAt(index - 1) <= 32) {
      words.push(text.slice(start, index));
      start = index;
    }
  }
  if (start < text.length) words.push(text.slice(start));
  return words;
}
