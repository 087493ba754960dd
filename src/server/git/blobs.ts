import type { FileBytes } from '../checker/checker.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Git } from './git.ts';

/** One blob of a batch, in the order they were asked for. */
export interface BlobRead {
  readonly blobId: string;
  /** Null when the repository does not have it. */
  readonly file: FileBytes | null;
}

/** How much of a file's bytes are kept. */
export interface BlobLimits {
  /** A file of at most so many bytes is kept whole. */
  readonly wholeBytes: number;
  /** Of each end of a larger file so many bytes are kept; at most half of `wholeBytes`. */
  readonly endBytes: number;
}

/** The end is enough for the directory of a zip of some ten thousand parts. */
const LIMITS: BlobLimits = { wholeBytes: 64 * 1024 * 1024, endBytes: 4 * 1024 * 1024 };
const LINE_FEED = 0x0a;
/** A header is an id, a type and a size; more than this without a line feed is none. */
const HEADER_LIMIT_BYTES = 4096;

/** Takes bytes out of chunks as they come. */
function createTaker(chunks: AsyncIterator<Buffer, unknown>) {
  let rest: Buffer = Buffer.alloc(0);

  async function more(): Promise<void> {
    const next = await chunks.next();
    if (next.done === true) throw new MirrorError('service.failed', 'git gave less than it announced');
    rest = rest.length === 0 ? next.value : Buffer.concat([rest, next.value]);
  }

  return {
    /** Gives the text up to the next line feed, which is passed over. */
    async line(): Promise<string> {
      for (;;) {
        const end = rest.indexOf(LINE_FEED);
        if (end !== -1) {
          const text = rest.toString('latin1', 0, end);
          rest = rest.subarray(end + 1);
          return text;
        }
        if (rest.length > HEADER_LIMIT_BYTES) throw new MirrorError('service.failed', 'git gave no header');
        await more();
      }
    },
    /** Hands over the next bytes piece by piece. */
    async bytes(count: number, onPiece: (piece: Buffer) => void): Promise<void> {
      for (let left = count; left > 0;) {
        if (rest.length === 0) await more();
        const piece = rest.subarray(0, left);
        onPiece(piece);
        left -= piece.length;
        rest = rest.subarray(piece.length);
      }
    },
  };
}

type Taker = ReturnType<typeof createTaker>;

/** The last bytes of what is given piece by piece. */
function createEnd(limitBytes: number) {
  let kept: Buffer[] = [];
  let keptBytes = 0;
  const joined = (): Buffer => Buffer.concat(kept).subarray(-limitBytes);
  return {
    add(piece: Buffer): void {
      kept.push(piece);
      keptBytes += piece.length;
      if (keptBytes < 2 * limitBytes) return;
      // A copy, so that the pieces are not kept alive by their ends.
      kept = [Buffer.from(joined())];
      keptBytes = limitBytes;
    },
    joined,
  };
}

async function takeFile(taker: Taker, sizeBytes: number, limits: BlobLimits): Promise<FileBytes> {
  const isWhole = sizeBytes <= limits.wholeBytes;
  const first = Buffer.alloc(isWhole ? sizeBytes : limits.endBytes);
  const end = createEnd(limits.endBytes);
  let at = 0;
  await taker.bytes(sizeBytes, (piece) => {
    if (at < first.length) piece.copy(first, at);
    at += piece.length;
    if (!isWhole) end.add(piece);
  });
  return { sizeBytes, first, last: isWhole ? Buffer.alloc(0) : end.joined() };
}

/**
 * Reads blobs with one git program, each only when it is wanted.
 * @throws MirrorError `service.failed` when git does not give them, or is ended by the signal
 */
export async function* readBlobs(
  git: Git,
  gitDirectory: string,
  blobIds: readonly string[],
  signal: AbortSignal,
  limits: BlobLimits = LIMITS,
): AsyncGenerator<BlobRead> {
  const input = blobIds.map((id) => `${id}\n`).join('');
  const { stdout, exit } = git.start(gitDirectory, ['cat-file', '--batch'], { input, signal });
  try {
    const chunks = (stdout as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    const taker = createTaker(chunks);
    for (const blobId of blobIds) {
      const [, type, size] = (await taker.line()).split(' ');
      if (type === 'missing') {
        yield { blobId, file: null };
        continue;
      }
      if (type !== 'blob') throw new MirrorError('service.failed', `git gave no file for ${blobId}`);
      const file = await takeFile(taker, Number(size), limits);
      await taker.bytes(1, () => undefined);
      yield { blobId, file };
    }
  } finally {
    // A pipe that nobody empties would keep the program from ever being done.
    stdout.destroy();
    await exit;
  }
}
