import { appendFile, readFile, rename, writeFile } from 'node:fs/promises';

import { type Finding, isLastingFinding } from './workbook-check.ts';

/** The first line. It names the rules: findings by other ones are forgotten. */
const HEADER = 'workbook-mirror findings 3';
const LINE = /^([0-9a-f]{40,64} [a-z]+) ([a-z]+)$/;

/** Reads the text of the file. Lines that are none, as one that a power cut tore, are passed over: what they said is found out again. */
export function parseFindings(text: string): Map<string, Finding> {
  const findings = new Map<string, Finding>();
  const [header, ...lines] = text.split('\n');
  if (header !== HEADER) return findings;
  for (const line of lines) {
    const [, part, finding] = LINE.exec(line) ?? [];
    if (part === undefined || finding === undefined || !isLastingFinding(finding)) continue;
    // The line would be kept alive whole by a part of it.
    findings.set(Buffer.from(part, 'latin1').toString('latin1'), finding);
  }
  return findings;
}

/** Writes a finding; empty for one that is not remembered. */
function lineOf(contentKey: string, finding: Finding): string {
  return isLastingFinding(finding) ? `${contentKey} ${finding}\n` : '';
}

/** Writes findings as {@link parseFindings} reads them. */
export function formatFindings(findings: Iterable<readonly [string, Finding]>): string {
  return `${HEADER}\n${[...findings].map(([key, finding]) => lineOf(key, finding)).join('')}`;
}

/**
 * Opens the file in which findings are remembered: one line each, added at the end. It is a cache: what cannot be read or written
 * costs time, and nothing else.
 */
export async function openFindings(path: string) {
  const text = await readFile(path, 'utf8').catch(() => '');
  let findings = parseFindings(text);
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
      await writeFile(temporary, formatFindings(findings));
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
    get size(): number {
      return findings.size;
    },
    /** @param contentKey blob id, space and kind of file; neither holds a space */
    get: (contentKey: string): Finding | undefined => findings.get(contentKey),
    /** Remembers a finding; one that depends on the machine and the moment, only until the end of the process. */
    set(contentKey: string, finding: Finding): void {
      findings.set(contentKey, finding);
      const line = lineOf(contentKey, finding);
      if (line === '') return;
      lines.push(line);
      write();
    },
    /** Forgets all others. */
    keepOnly(contentKeys: ReadonlySet<string>): void {
      findings = new Map([...findings].filter(([contentKey]) => contentKeys.has(contentKey)));
      isToBeReplaced = true;
      write();
    },
    /** Waits until everything is written. */
    close: (): Promise<void> => written,
  };
}
