import { isUtf8 } from 'node:buffer';

import { GatheredBytes } from '../../lib/http/request-body.ts';
import { tooLarge } from '../../lib/http/request-error.ts';
import type { Bytes } from './library.ts';
import { FLUSH, inSideBand, packetOf, type PacketsRead, readPackets } from './packets.ts';

/** Enough for the names of a hundred thousand branches and tags; git holds all of them in memory. */
export const COMMANDS_LIMIT_BYTES = 16 * 1024 * 1024;

/** The head of a push, before its objects (gitprotocol-pack(5), "Pushing Data To a Server"). */
export interface PushCommands {
  /** Names of the references, in the bytes in which they came. */
  readonly names: readonly Buffer[];
  readonly capabilities: ReadonlySet<string>;
}

/** A push whose commands have been read. */
export interface Push {
  readonly commands: PushCommands;
  /** The whole request, from its beginning. */
  readonly request: Bytes;
}

/** Reads the commands of a push from what its packets hold up to the first flush packet. */
export function parseCommands(payloads: readonly Buffer[]): PushCommands {
  const names: Buffer[] = [];
  const capabilities = new Set<string>();
  for (const payload of payloads) {
    const nul = payload.indexOf(0);
    const line = nul === -1 ? payload : payload.subarray(0, nul);
    if (nul !== -1) {
      for (const word of payload
        .toString('latin1', nul + 1)
        .trim()
        .split(' '))
        capabilities.add(word);
    }
    // Old id, new id and the name; anything else is for git to refuse or to understand.
    const head = /^[0-9a-f]+ [0-9a-f]+ /.exec(line.toString('latin1'))?.[0];
    if (head === undefined) continue;
    const end = line.at(-1) === 0x0a ? -1 : undefined;
    names.push(line.subarray(head.length, end));
  }
  return { names, capabilities };
}

/**
 * Reads the commands of a push.
 * @throws RequestError 413 for more of them than there may be, and what the body throws
 */
export async function readPush(body: Bytes, limitBytes = COMMANDS_LIMIT_BYTES): Promise<Push> {
  const chunks = body[Symbol.asyncIterator]();
  const gathered = new GatheredBytes(limitBytes);
  let read: PacketsRead = { payloads: [], end: 0, isDone: false };
  while (!read.isDone) {
    const next = await chunks.next();
    if (next.done === true) break;
    gathered.add(next.value);
    read = readPackets(gathered.bytes, read.end);
    if (!read.isDone && gathered.bytes.length > limitBytes) {
      await chunks.return?.();
      throw tooLarge(`the names of what is pushed may have ${limitBytes} bytes: push in parts`);
    }
  }
  const begun = gathered.bytes;
  async function* request(): Bytes {
    try {
      yield begun;
      for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) yield next.value;
    } finally {
      await chunks.return?.();
    }
  }
  return { commands: parseCommands(readPackets(begun, 0).payloads), request: request() };
}

/** Names that are not UTF-8 have no place in JSON and in addresses: several would become one. */
export function hasStrangeName({ names }: PushCommands): boolean {
  return names.some((name) => !isUtf8(name));
}

/**
 * The report to a client that its whole push is refused (gitprotocol-pack(5), "Report Status"); empty where it asked for none.
 * @param why in one line
 */
export function refusedPush({ names, capabilities }: PushCommands, why: string): Buffer {
  if (!capabilities.has('report-status') && !capabilities.has('report-status-v2')) return Buffer.alloc(0);
  const lines = names.map((name) =>
    packetOf(Buffer.concat([Buffer.from('ng '), name, Buffer.from(` ${why}\n`)])),
  );
  const report = Buffer.concat([packetOf(Buffer.from('unpack ok\n')), ...lines, Buffer.from(FLUSH)]);
  return capabilities.has('side-band-64k') ? inSideBand(report) : report;
}
