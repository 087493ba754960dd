import { appendFile, readFile, rename, writeFile } from 'node:fs/promises';

import { type Finding, isLastingFinding } from './workbook-check.ts';

/** What was found, remembered across restarts. */
export interface StoredFindings {
  readonly size: number;
  /** @param contentKey blob id, space and kind of file; neither holds a space */
  readonly get: (contentKey: string) => Finding | undefined;
  /**
   * What depends on the machine and the moment is remembered until the end of the process only, but that a file was overtaxing for a
   * day: it takes half a minute to find that out.
   */
  readonly set: (contentKey: string, finding: Finding) => void;
  /** Forgets all others. */
  readonly keepOnly: (contentKeys: ReadonlySet<string>) => void;
  /** Waits until everything is written. */
  readonly close: () => Promise<void>;
}

/** The first line. It names the rules: findings by other ones are forgotten. */
const HEADER = 'workbook-mirror findings 1';
const LINE = /^([0-9a-f]{40,64} [a-z]+) ([a-z]+)(?: (\d{1,11}))?$/;
const OVERTAXED_MS = 86_400_000;

/** What is remembered. */
interface ReadFindings {
  readonly findings: Map<string, Finding>;
  /** When files were overtaxing, in milliseconds since the epoch. */
  readonly overtaxedAtMs: Map<string, number>;
}

/** Whether it is still remembered that a file was overtaxing. */
function isRecent(atMs: number, nowMs: number): boolean {
  return atMs <= nowMs && nowMs < atMs + OVERTAXED_MS;
}

/**
 * Reads the text of the file. Lines that are none, as one that a power cut tore, are passed over: what they said is found out
 * again.
 * @param nowMs milliseconds since the epoch
 */
export function parseFindings(text: string, nowMs: number): ReadFindings {
  const findings = new Map<string, Finding>();
  const overtaxedAtMs = new Map<string, number>();
  const [header, ...lines] = text.split('\n');
  if (header !== HEADER) return { findings, overtaxedAtMs };
  for (const line of lines) {
    const [, part, finding, seconds] = LINE.exec(line) ?? [];
    if (part === undefined || finding === undefined) continue;
    // The line would be kept alive whole by a part of it.
    const contentKey = Buffer.from(part, 'latin1').toString('latin1');
    if (seconds === undefined) {
      if (isLastingFinding(finding)) findings.set(contentKey, finding);
    } else if (finding === 'overtaxing' && isRecent(Number(seconds) * 1000, nowMs)) {
      findings.set(contentKey, finding);
      overtaxedAtMs.set(contentKey, Number(seconds) * 1000);
    }
  }
  return { findings, overtaxedAtMs };
}

/** Writes a finding; empty for one that is not remembered. */
function lineOf(contentKey: string, finding: Finding, overtaxedAtMs: number | undefined): string {
  if (isLastingFinding(finding)) return `${contentKey} ${finding}\n`;
  if (finding !== 'overtaxing' || overtaxedAtMs === undefined) return '';
  return `${contentKey} overtaxing ${Math.floor(overtaxedAtMs / 1000)}\n`;
}

/** Writes findings as {@link parseFindings} reads them. @param overtaxedAtMs when files were overtaxing */
export function formatFindings(
  findings: Iterable<readonly [string, Finding]>,
  overtaxedAtMs: ReadonlyMap<string, number>,
): string {
  const lines = [...findings].map(([key, finding]) => lineOf(key, finding, overtaxedAtMs.get(key)));
  return `${HEADER}\n${lines.join('')}`;
}

/**
 * Opens the file in which findings are remembered: one line each, added at the end. It is a cache: what cannot be read or written
 * costs time, and nothing else.
 */
export async function openFindings(path: string): Promise<StoredFindings> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const read = parseFindings(text, Date.now());
  const { overtaxedAtMs } = read;
  let { findings } = read;
  let lines: string[] = [];
  // Anything but a whole file of ours is replaced: a line added to half a line would be lost.
  let isToBeReplaced = !text.startsWith(`${HEADER}\n`) || !text.endsWith('\n');
  let written: Promise<void> = Promise.resolve();
  let isWriting = false;

  async function writeOnce(): Promise<void> {
    if (isToBeReplaced) {
      isToBeReplaced = false;
      lines = [];
      const temporary = `${path}.tmp`;
      await writeFile(temporary, formatFindings(findings, overtaxedAtMs));
      await rename(temporary, path);
    } else {
      const added = lines.join('');
      lines = [];
      await appendFile(path, added);
    }
  }

  /** Writes until nothing is left; what comes meanwhile becomes one more write, however much it is. */
  async function writeAll(): Promise<void> {
    isWriting = true;
    while (isToBeReplaced || lines.length > 0) await writeOnce().catch(() => undefined);
    isWriting = false;
  }

  function write(): void {
    if (!isWriting) written = writeAll();
  }

  return {
    get size() {
      return findings.size;
    },
    get: (contentKey) => findings.get(contentKey),
    set(contentKey, finding) {
      findings.set(contentKey, finding);
      if (finding === 'overtaxing') overtaxedAtMs.set(contentKey, Date.now());
      const line = lineOf(contentKey, finding, overtaxedAtMs.get(contentKey));
      if (line === '') return;
      lines.push(line);
      write();
    },
    keepOnly(contentKeys) {
      findings = new Map([...findings].filter(([contentKey]) => contentKeys.has(contentKey)));
      for (const contentKey of overtaxedAtMs.keys())
        if (!findings.has(contentKey)) overtaxedAtMs.delete(contentKey);
      isToBeReplaced = true;
      write();
    },
    close: () => written,
  };
}
