import type { OnReadOpts, Socket } from 'node:net';

import { buildConnector } from 'undici';

/** Most buffers that are kept for their next use. */
const MOST_FREE = 32;

/**
 * What a read must fill of a buffer, or its bytes are copied: pieces that wait for a slow reader would hold many times the memory that
 * they need. With TLS a read brings 16 kB at most.
 */
const LEAST_SHARE = 1 / 8;

/** The bytes of one read, while their readers have them. */
interface Loan {
  /** Where they end in their buffer. */
  readonly endBytes: number;
  /** Whether the last of them were handed out. */
  isWhole: boolean;
  /** How many pieces are with their readers. */
  pieces: number;
}

/**
 * Memory that sockets read into, again and again: to allocate it anew for each read keeps the garbage collector busy. A buffer is used
 * again only when its bytes were handed out to the last one, and each piece of them was given back; otherwise it is garbage like any
 * other.
 */
export class ReceiveBuffers {
  private readonly sizeBytes: number;
  private readonly free: Buffer[] = [];
  private readonly loans = new WeakMap<ArrayBufferLike, Loan>();
  private readonly loansOfPieces = new WeakMap<Uint8Array, Loan>();

  /** @param sizeBytes most bytes of one read */
  constructor(sizeBytes: number) {
    this.sizeBytes = sizeBytes;
  }

  /** A buffer for the next read. */
  take(): Buffer {
    return this.free.pop() ?? Buffer.allocUnsafeSlow(this.sizeBytes);
  }

  /** The bytes of a read, which nothing is read over from now on. */
  lend(buffer: Uint8Array, readBytes: number): Uint8Array {
    const bytes = buffer.subarray(0, readBytes);
    if (readBytes < this.sizeBytes * LEAST_SHARE) {
      const copy = Buffer.from(bytes);
      this.keep(buffer.buffer);
      return copy;
    }
    this.loans.set(buffer.buffer, { endBytes: readBytes, isWhole: false, pieces: 0 });
    return bytes;
  }

  /** Is told of each piece of what was lent, in their order, before a reader has it. What comes from elsewhere does not count. */
  handOut(piece: Uint8Array): void {
    const loan = this.loans.get(piece.buffer);
    if (loan === undefined) return;
    loan.pieces += 1;
    loan.isWhole ||= piece.byteOffset + piece.byteLength === loan.endBytes;
    this.loansOfPieces.set(piece, loan);
  }

  /** Takes back such a piece: the very one, and once. Another one does not count. */
  giveBack(piece: Uint8Array): void {
    const loan = this.loansOfPieces.get(piece);
    if (loan === undefined) return;
    this.loansOfPieces.delete(piece);
    loan.pieces -= 1;
    if (!loan.isWhole || loan.pieces > 0) return;
    this.loans.delete(piece.buffer);
    this.keep(piece.buffer);
  }

  private keep(memory: ArrayBufferLike): void {
    if (this.free.length < MOST_FREE) this.free.push(Buffer.from(memory));
  }
}

/** Makes connections that read into the buffers. @param timeoutMs how long a connection may take */
export function receivingConnector(buffers: ReceiveBuffers, timeoutMs: number): buildConnector.connector {
  return (options, callback) => {
    let socket: Socket | null = null;
    const onread: OnReadOpts = {
      buffer: () => buffers.take(),
      callback: (readBytes, buffer) => socket?.push(buffers.lend(buffer, readBytes)) ?? true,
    };
    const connect = buildConnector({ allowH2: false, timeout: timeoutMs, onread });
    connect(options, (...made) => {
      [, socket] = made;
      callback(...made);
    });
  };
}
