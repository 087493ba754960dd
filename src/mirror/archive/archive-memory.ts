const MIB = 1024 * 1024;

/** Of one archive: a greater one is unpacked hardly faster from memory than from a file. */
const MOST_ROOM_BYTES = 64 * MIB;

/** Of all archives together. */
const MOST_BYTES = 128 * MIB;

/** Where memory is limited, archives may take the eighth part of it. */
const SHARE = 8;

const LEAST_ROOM_BYTES = MIB;

/**
 * How much memory archives may take.
 * @param limitBytes the limit on the memory of the process; 0 where there is none
 */
export function archiveMemoryBytes(limitBytes: number): number {
  return limitBytes === 0 ? MOST_BYTES : Math.min(MOST_BYTES, Math.floor(limitBytes / SHARE));
}

/**
 * The memory in which archives wait to be unpacked, shared with the threads that do it. It is used again and again: the system would
 * have to clear fresh memory first.
 */
export class ArchiveMemory {
  private freeBytes: number;
  /** Not lent; counted as taken. */
  private idle: SharedArrayBuffer[] = [];

  /** @param budgetBytes how much it takes at most */
  constructor(budgetBytes: number) {
    this.freeBytes = budgetBytes;
  }

  /** Lends room for one archive, the greatest that was given back; it has no bytes at first where none was. */
  lend(): Room {
    const buffer = this.greatestIdle(0) ?? new SharedArrayBuffer(0, { maxByteLength: MOST_ROOM_BYTES });
    return new Room(buffer, this);
  }

  /** Lets go of what is not lent. @returns its bytes */
  dropIdle(): number {
    const bytes = this.idle.reduce((sum, buffer) => sum + buffer.byteLength, 0);
    this.idle = [];
    this.freeBytes += bytes;
    return bytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.freeBytes) return false;
    this.freeBytes -= bytes;
    return true;
  }

  giveBack(buffer: SharedArrayBuffer): void {
    if (buffer.byteLength > 0) this.idle.push(buffer);
  }

  /** Takes the greatest buffer that is not lent; null where none has so many bytes. */
  greatestIdle(leastBytes: number): SharedArrayBuffer | null {
    this.idle.sort((a, b) => a.byteLength - b.byteLength);
    const greatest = this.idle.at(-1);
    if (greatest === undefined || greatest.byteLength < leastBytes) return null;
    this.idle.pop();
    return greatest;
  }
}

/** Room for the bytes of one archive. It grows as they come, up to its own limit and that of all together. */
export class Room {
  private buffer: SharedArrayBuffer;
  private readonly memory: ArchiveMemory;
  private bytes: Uint8Array<SharedArrayBuffer>;

  constructor(buffer: SharedArrayBuffer, memory: ArchiveMemory) {
    this.buffer = buffer;
    this.memory = memory;
    this.bytes = new Uint8Array(buffer, 0, buffer.byteLength);
  }

  /** Whether it may ever hold so many bytes. */
  mayHold(lengthBytes: number): boolean {
    return lengthBytes <= this.buffer.maxByteLength;
  }

  /** Whether it holds so many bytes now, or could be made to. */
  holds(lengthBytes: number): boolean {
    return lengthBytes <= this.bytes.length || this.grow(lengthBytes);
  }

  /** Puts a piece at a place. @returns whether there was room for it */
  put(piece: Uint8Array, atBytes: number): boolean {
    if (!this.holds(atBytes + piece.length)) return false;
    this.bytes.set(piece, atBytes);
    return true;
  }

  /** The first bytes; good until the room is given back. */
  first(lengthBytes: number): Uint8Array<SharedArrayBuffer> {
    return this.bytes.subarray(0, lengthBytes);
  }

  /** To be called once, when nobody reads its bytes any more. */
  giveBack(): void {
    this.bytes = this.bytes.subarray(0, 0);
    this.memory.giveBack(this.buffer);
  }

  private grow(leastBytes: number): boolean {
    if (!this.mayHold(leastBytes)) return false;
    const presentBytes = this.buffer.byteLength;
    const wantedBytes = Math.max(LEAST_ROOM_BYTES, leastBytes, presentBytes * 2);
    const nextBytes = Math.min(this.buffer.maxByteLength, wantedBytes);
    if (!this.memory.take(nextBytes - presentBytes)) return this.moveTo(this.memory.greatestIdle(leastBytes));
    this.buffer.grow(nextBytes);
    this.bytes = new Uint8Array(this.buffer, 0, nextBytes);
    return true;
  }

  /** Uses another buffer, as letting go of it would free nothing for a while: V8 does not know how much is in it. */
  private moveTo(other: SharedArrayBuffer | null): boolean {
    if (other === null) return false;
    const bytes = new Uint8Array(other, 0, other.byteLength);
    bytes.set(this.bytes);
    this.memory.giveBack(this.buffer);
    this.buffer = other;
    this.bytes = bytes;
    return true;
  }
}
