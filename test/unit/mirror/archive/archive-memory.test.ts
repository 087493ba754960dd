import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  ArchiveMemory,
  archiveMemoryBytes,
  type Room,
} from '../../../../src/mirror/archive/archive-memory.ts';

const MIB = 1024 * 1024;

describe('archiveMemoryBytes', () => {
  it.each([
    ['without a limit', 0, 128 * MIB],
    ['with a limit beyond all memory', 2 ** 64, 128 * MIB],
    ['with a limit of 512 MiB', 512 * MIB, 64 * MIB],
    ['with a limit of 80 MiB', 80 * MIB, 10 * MIB],
  ])('%s', (_what, limitBytes, expected) => {
    expect(archiveMemoryBytes(limitBytes)).toBe(expected);
  });
});

describe('archive memory', () => {
  it('lends what was given back, and lets go of it when more is wanted than there is', () => {
    const memory = new ArchiveMemory(10 * MIB);
    const one = memory.lend();
    expect(one.put(new Uint8Array(6 * MIB), 0)).toBe(true);
    const other = memory.lend();
    expect(other.put(new Uint8Array(6 * MIB), 0)).toBe(false);
    one.giveBack();
    expect(other.put(new Uint8Array(6 * MIB), 0)).toBe(true);
    other.giveBack();
    expect(memory.dropIdle()).toBe(6 * MIB);
    expect(memory.dropIdle()).toBe(0);
  });

  it('gives no room to more than 64 MiB of one archive', () => {
    const room = new ArchiveMemory(256 * MIB).lend();
    expect([room.mayHold(64 * MIB), room.mayHold(64 * MIB + 1)]).toEqual([true, false]);
    expect(room.put(new Uint8Array(1), 64 * MIB)).toBe(false);
  });

  it('never takes more than its budget, and never lends bytes twice at a time', () => {
    const step = fc.record({ room: fc.nat(3), bytes: fc.nat(5 * MIB), isEnd: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), fc.nat(12 * MIB), (steps, budgetBytes) => {
        const memory = new ArchiveMemory(budgetBytes);
        const lent = new Map<number, { room: Room; sizeBytes: number }>();
        for (const { room: name, bytes, isEnd } of steps) {
          const each = lent.get(name) ?? { room: memory.lend(), sizeBytes: 0 };
          lent.set(name, each);
          if (each.room.put(new Uint8Array(bytes).fill(name + 1), each.sizeBytes)) each.sizeBytes += bytes;
          for (const [other, { room, sizeBytes }] of lent) {
            const bytes = room.first(sizeBytes);
            for (let at = 0; at < sizeBytes; at += 4096)
              if (bytes[at] !== other + 1) expect.fail('overwritten');
          }
          const buffers = [...lent.values()].map(({ room }) => room.first(0).buffer);
          expect(new Set(buffers).size).toBe(buffers.length);
          expect(buffers.reduce((sum, { byteLength }) => sum + byteLength, 0)).toBeLessThanOrEqual(
            budgetBytes,
          );
          if (!isEnd) continue;
          each.room.giveBack();
          lent.delete(name);
        }
      }),
      { numRuns: 60 },
    );
  });
});
