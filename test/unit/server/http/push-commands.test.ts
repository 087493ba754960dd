import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { Bytes } from '../../../../src/server/http/library.ts';
import { FLUSH, inSideBand, packetLine, packetOf, readPackets } from '../../../../src/server/http/packets.ts';
import {
  hasStrangeName,
  parseCommands,
  readPush,
  refusedPush,
} from '../../../../src/server/http/push-commands.ts';
import { RequestError } from '../../../../src/lib/http/request-error.ts';

const NEW = 'a'.repeat(40);
const NONE = '0'.repeat(40);

function command(name: string, capabilities = ''): Buffer {
  const tail = capabilities === '' ? '' : `\0 ${capabilities}`;
  return packetOf(Buffer.from(`${NONE} ${NEW} ${name}${tail}`, 'latin1'));
}

async function* inPieces(bytes: Buffer, sizeBytes: number): Bytes {
  for (let from = 0; from < bytes.length; from += sizeBytes) yield bytes.subarray(from, from + sizeBytes);
}

async function gathered(bytes: Bytes): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe('the packets of a request', () => {
  it('are read up to the first flush packet, and to what is no packet', () => {
    const read = (text: string): unknown => {
      const { payloads, ...where } = readPackets(Buffer.from(text), 0);
      return { payloads: payloads.map(String), ...where };
    };
    expect(read(`0005a0006bc${FLUSH}0005d`)).toEqual({ payloads: ['a', 'bc'], end: 11, isDone: true });
    expect(read('0005a0006b')).toEqual({ payloads: ['a'], end: 5, isDone: false });
    expect(read('0004')).toEqual({ payloads: [''], end: 4, isDone: false });
    expect(read('')).toEqual({ payloads: [], end: 0, isDone: false });
    expect(read('PACK')).toEqual({ payloads: [], end: 0, isDone: true });
    expect(read('0001')).toEqual({ payloads: [], end: 0, isDone: true });
  });
});

describe('the commands of a push', () => {
  it('are read, and the request is still whole, whatever its pieces are', async () => {
    const whole = Buffer.concat([
      command('refs/heads/main', 'report-status side-band-64k agent=git/2'),
      command('refs/heads/ü\n'),
      Buffer.from(`${FLUSH}PACK and what follows`),
    ]);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: whole.length + 1 }), async (sizeBytes) => {
        const { commands, request } = await readPush(inPieces(whole, sizeBytes));
        expect(commands.names.map((name) => name.toString('latin1'))).toEqual([
          'refs/heads/main',
          'refs/heads/ü',
        ]);
        expect([...commands.capabilities]).toEqual(['report-status', 'side-band-64k', 'agent=git/2']);
        expect(await gathered(request)).toEqual(whole);
      }),
    );
  });

  it('may be none, or no commands at all: git says what it thinks of them', async () => {
    for (const text of ['', FLUSH, 'nonsense', '0009shall']) {
      const { commands, request } = await readPush(inPieces(Buffer.from(text), 3));
      expect(commands.names).toEqual([]);
      expect((await gathered(request)).toString()).toBe(text);
    }
  });

  it('are refused when they take more than they may, as soon as they do', async () => {
    let sent = 0;
    async function* endless(): Bytes {
      for (;;) {
        sent += 1;
        yield command(`refs/heads/${sent}`);
      }
    }
    await expect(readPush(endless(), 1000)).rejects.toThrow(RequestError);
    expect(sent).toBeLessThan(20);
    const large = Buffer.concat([command('refs/heads/x'), Buffer.from(FLUSH), Buffer.alloc(5000)]);
    expect(await gathered((await readPush(inPieces(large, 100), 1000)).request)).toEqual(large);
  });

  it('name references in UTF-8, and are refused in the words of Git where they do not', () => {
    const good = parseCommands([Buffer.from(`${NONE} ${NEW} refs/heads/ü\0 report-status`)]);
    expect(hasStrangeName(good)).toBe(false);
    const bad = Buffer.from(`${NONE} ${NEW} refs/heads/\xe9`, 'latin1');
    const payload = (capabilities: string): Buffer => Buffer.concat([bad, Buffer.from(`\0${capabilities}`)]);
    expect(hasStrangeName(parseCommands([payload(' x')]))).toBe(true);
    const told = (capabilities: string): string =>
      refusedPush(parseCommands([payload(capabilities)]), 'no').toString('latin1');
    const report = `${packetLine('unpack ok\n')}0017ng refs/heads/\xe9 no\n${FLUSH}`;
    expect(told(' report-status')).toBe(report);
    expect(told('report-status-v2 side-band-64k')).toBe(
      inSideBand(Buffer.from(report, 'latin1')).toString('latin1'),
    );
    expect(told(' side-band-64k')).toBe('');
  });

  it('put what is too long for one packet into several', () => {
    const bytes = Buffer.alloc(200_000, 'x');
    const { payloads, isDone } = readPackets(inSideBand(bytes), 0);
    expect(isDone).toBe(true);
    expect(payloads.every((payload) => payload[0] === 1 && payload.length <= 65_516)).toBe(true);
    expect(Buffer.concat(payloads.map((payload) => payload.subarray(1)))).toEqual(bytes);
  });
});
