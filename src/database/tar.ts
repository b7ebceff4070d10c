// The part of the tar format that the folder of an embedded database needs: directories, files below 8 GiB, short names.
import { mkdir, open, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const blockBytes = 512;
const pieceBytes = 1024 * 1024;
const types = { file: '0', directory: '5' };

/** Packs a folder, in pieces that fit into memory. Names begin with a slash. */
export async function* pack(folder: string): AsyncGenerator<Buffer> {
  for (const name of (await readdir(folder, { recursive: true })).sort()) {
    const path = join(folder, name);
    const found = await stat(path);
    if (found.isDirectory()) yield header(name, 0, types.directory);
    if (!found.isFile()) continue;
    yield header(name, found.size, types.file);
    yield* contents(path, found.size);
    yield Buffer.alloc(-found.size & (blockBytes - 1));
  }
  yield Buffer.alloc(2 * blockBytes);
}

function header(name: string, size: number, type: string): Buffer {
  const block = Buffer.alloc(blockBytes);
  if (block.write(`/${name}`, 0, 100) < Buffer.byteLength(name) + 1) throw new Error(`${name}: the name is too long for a backup`);
  block.write(type === types.directory ? '0000700' : '0000600', 100);
  block.write('0000000', 108);
  block.write('0000000', 116);
  block.write(size.toString(8).padStart(11, '0'), 124);
  block.write('00000000000', 136);
  block.write(type, 156);
  block.write('ustar\u000000', 257);
  block.write(`${checksum(block).toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

/** The sum of a header's bytes, where those of the checksum itself count as spaces. */
function checksum(block: Buffer): number {
  return block.reduce((sum, byte, index) => sum + (index >= 148 && index < 156 ? 0x20 : byte), 0);
}

async function* contents(path: string, size: number): AsyncGenerator<Buffer> {
  await using file = await open(path);
  for (let left = size; left > 0; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(left, pieceBytes)));
    if (bytesRead === 0) throw new Error(`${path} was cut short while it was read`);
    left -= bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Creates in `folder` what was packed. */
export async function unpack(pieces: AsyncIterable<Buffer>, folder: string): Promise<void> {
  const input = reader(pieces);
  for (;;) {
    const block = await input.take(blockBytes);
    if (block.every((byte) => byte === 0)) return input.drop();
    if (numberAt(block, 148, 8) !== checksum(block)) throw new Error('a header is not one of a tar file');
    const name = textAt(block, 0, 100);
    if (name.split('/').includes('..')) throw new Error(`it names ${name}`);
    const path = join(folder, name);
    if (textAt(block, 156, 1) === types.directory) {
      await mkdir(path, { recursive: true, mode: 0o700 });
      continue;
    }
    const size = numberAt(block, 124, 12);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await using file = await open(path, 'w', 0o600);
    for (let left = size; left > 0; ) {
      const piece = await input.take(Math.min(left, pieceBytes));
      await file.writeFile(piece);
      left -= piece.length;
    }
    await input.take(-size & (blockBytes - 1));
  }
}

function textAt(block: Buffer, start: number, length: number): string {
  return block.toString('utf8', start, start + length).replace(/[\0 ].*$/s, '');
}

function numberAt(block: Buffer, start: number, length: number): number {
  return Number.parseInt(textAt(block, start, length), 8);
}

/** Reads any number of bytes at a time, whatever size the pieces have. */
function reader(pieces: AsyncIterable<Buffer>) {
  const source = pieces[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  return {
    async take(bytes: number): Promise<Buffer> {
      const taken = [rest];
      for (let have = rest.length; have < bytes; ) {
        const { value, done } = await source.next();
        if (done) throw new Error('it ends too early');
        taken.push(value);
        have += value.length;
      }
      const all = Buffer.concat(taken);
      rest = all.subarray(bytes);
      return all.subarray(0, bytes);
    },
    /** Reads to the end: only there does gzip compare its checksum. */
    async drop(): Promise<void> {
      while (!(await source.next()).done);
    },
  };
}
