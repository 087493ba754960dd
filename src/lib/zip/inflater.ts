import { constants, createInflateRaw, type InflateRaw } from 'node:zlib';

/**
 * The parts of Node's inflater that its synchronous functions use (lib/zlib.js). They are not documented; the documented calls
 * either makes an inflater for every call, which takes as long as inflating, or cannot be called synchronously piece by piece.
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
  /** Remaining bytes of the output, and of the input. */
  readonly _writeState: Uint32Array;
}

type Reusable = InflateRaw & Engine;

/** Inflates raw deflated bytes piece by piece, one content after the other. */
export class Inflater {
  #engine = createEngine();

  /** Begins with the first bytes of a content. */
  reset(): void {
    // An inflater that met damage cannot be reused.
    if (this.#engine.destroyed) this.#engine = createEngine();
    this.#engine.reset();
  }

  /**
   * Inflates as far as input and room go. The end was reached if room is left and input, too.
   * @param isLast whether no more input follows, which saves zlib a copy of the output
   * @throws Error of zlib, with a code; also if the last input does not reach the end
   */
  inflate(
    input: Uint8Array,
    output: Uint8Array,
    outputAt: number,
    isLast: boolean,
  ): { readonly usedBytes: number; readonly madeBytes: number } {
    const roomBytes = output.length - outputAt;
    const { _handle: handle, _writeState: left } = this.#engine;
    const flush = isLast ? constants.Z_FINISH : constants.Z_NO_FLUSH;
    handle.writeSync(flush, input, 0, input.length, output, outputAt, roomBytes);
    if (this.#engine.destroyed) throw this.#engine.errored ?? new TypeError('zlib did not say what is wrong');
    const [leftOutput = 0, leftInput = 0] = left;
    return { usedBytes: input.length - leftInput, madeBytes: roomBytes - leftOutput };
  }
}

function createEngine(): Reusable {
  const inflateRaw = createInflateRaw();
  if (!isReusable(inflateRaw)) throw new TypeError('this version of Node cannot inflate piece by piece');
  // It reports damage twice: immediately by its state, and later by an event.
  return inflateRaw.on('error', () => {});
}

function isReusable(inflateRaw: InflateRaw & Partial<Engine>): inflateRaw is Reusable {
  const { _handle: handle, _writeState: state } = inflateRaw;
  return typeof handle?.writeSync === 'function' && state instanceof Uint32Array;
}
