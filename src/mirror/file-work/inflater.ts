import { constants, createInflateRaw, type InflateRaw, inflateRawSync } from 'node:zlib';

/** Inflates what is whole in memory, a piece after the other. */
export interface Inflater {
  /**
   * Inflates raw deflated bytes.
   * @param sizeBytes how many bytes are to come of it; one more at most is given
   * @returns the bytes, good until the next call, and how many of those given were used
   * @throws Error of zlib, with a code
   */
  readonly inflate: (
    deflated: Uint8Array,
    sizeBytes: number,
  ) => { readonly bytes: Buffer; readonly usedBytes: number };
}

/**
 * The parts of Node's inflater by which its synchronous functions work (lib/zlib.js). They are not documented, so that a Node may come
 * without them; what is documented makes an inflater and memory for its output anew for every call, which takes as long as inflating.
 */
interface Engine {
  readonly _handle: {
    readonly writeSync: (
      flush: number,
      input: Uint8Array,
      inputAt: number,
      inputBytes: number,
      output: Uint8Array,
      outputAt: number,
      outputBytes: number,
    ) => void;
  };
  /** Bytes that are left of the output, and of the input. */
  readonly _writeState: Uint32Array;
}

type ReusableInflateRaw = InflateRaw & Engine;

/** Makes an inflater, which keeps its memory where Node lets it. */
export function createInflater(makeInflateRaw: () => InflateRaw = createInflateRaw): Inflater {
  const first = reusable(makeInflateRaw());
  return first === null ? { inflate: inflateAnew } : new ReusedInflater(first);
}

function reusable(inflateRaw: InflateRaw): ReusableInflateRaw | null {
  if (!isReusable(inflateRaw)) return null;
  // It tells of damage twice: at once by its state, and later by an event.
  return inflateRaw.on('error', () => {});
}

function isReusable(inflateRaw: InflateRaw & Partial<Engine>): inflateRaw is ReusableInflateRaw {
  const { _handle: handle, _writeState: state } = inflateRaw;
  return typeof handle?.writeSync === 'function' && state instanceof Uint32Array;
}

class ReusedInflater implements Inflater {
  private engine: ReusableInflateRaw;
  private output = Buffer.allocUnsafe(64 * 1024);

  constructor(engine: ReusableInflateRaw) {
    this.engine = engine;
  }

  inflate(deflated: Uint8Array, sizeBytes: number): { bytes: Buffer; usedBytes: number } {
    const engine = this.ready();
    const roomBytes = sizeBytes + 1;
    if (this.output.length < roomBytes) this.output = Buffer.allocUnsafe(roomBytes);
    const { _handle: handle, _writeState: left } = engine;
    handle.writeSync(constants.Z_FINISH, deflated, 0, deflated.length, this.output, 0, roomBytes);
    if (engine.destroyed) throw engine.errored ?? new TypeError('zlib did not say what is wrong');
    const [leftOutput = 0, leftInput = 0] = left;
    return {
      bytes: this.output.subarray(0, roomBytes - leftOutput),
      usedBytes: deflated.length - leftInput,
    };
  }

  /** One that met damage is of no more use. */
  private ready(): ReusableInflateRaw {
    if (this.engine.destroyed) this.engine = reusable(createInflateRaw()) ?? this.engine;
    this.engine.reset();
    return this.engine;
  }
}

/** The least that zlib takes (Node.js, "Class: Options"). */
const LEAST_CHUNK_BYTES = 64;

function inflateAnew(deflated: Uint8Array, sizeBytes: number): { bytes: Buffer; usedBytes: number } {
  // With room for all of it at once nothing is joined together afterwards.
  const chunkSize = Math.max(LEAST_CHUNK_BYTES, sizeBytes + 1);
  const result: unknown = inflateRawSync(deflated, {
    maxOutputLength: sizeBytes + 1,
    chunkSize,
    info: true,
  });
  if (!hasEngine(result)) throw new TypeError('zlib did not say how much it read');
  return { bytes: result.buffer, usedBytes: result.engine.bytesWritten };
}

/** The result of zlib with the option `info` (Node.js, "Class: Options"), which its types do not show. */
function hasEngine(result: unknown): result is { buffer: Buffer; engine: { bytesWritten: number } } {
  return typeof result === 'object' && result !== null && 'engine' in result && 'buffer' in result;
}
