import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

const GIB = 1024 ** 3;

/** What was measured on, in one line: processor, memory, file system, kernel, Node, day, and the command. */
export function describeMachine(folder: string, args: readonly string[]): string {
  const [first] = cpus();
  const model = first?.model.trim() ?? 'unknown processor';
  return [
    `${cpus().length} x ${model}`,
    `${Math.round(totalmem() / GIB)} GiB`,
    fileSystemOf(folder),
    `Linux ${release()}`,
    `Node ${process.versions.node}`,
    new Date().toISOString().slice(0, 10),
    `\`npm run bench${args.length === 0 ? '' : ` -- ${args.join(' ')}`}\``,
  ].join(', ');
}

/** A file system's kind, and whether an ext4 has a journal, on which the cost of making files depends. */
function fileSystemOf(folder: string): string {
  try {
    const listed = execFileSync('df', ['--output=fstype,source', folder], { encoding: 'utf8' });
    const [kind = '?', device = ''] = listed.trim().split('\n').at(-1)?.split(/\s+/) ?? [];
    return kind === 'ext4' && !hasJournal(device) ? 'ext4 without journal' : kind;
  } catch {
    return 'unknown file system';
  }
}

function hasJournal(device: string): boolean {
  try {
    return readFileSync(`/proc/fs/ext4/${device.replace('/dev/', '')}/options`, 'utf8').includes('data=');
  } catch {
    return true;
  }
}
