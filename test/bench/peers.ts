import { join } from 'node:path';

import type { BenchFile } from './data-set.ts';
import { type Command, measure, type Sample } from './measure.ts';
import type { BenchService } from './service.ts';

/** How the script unpacks. */
export type ScriptMethod = 'stream' | 'file' | 'unzip';

/** A file of the folder of peers. */
export function peer(name: string): string {
  return join(import.meta.dirname, 'peers', name);
}

/** Runs a script of bash. */
export function bash(
  script: string,
  ...args: readonly string[]
): Promise<Sample & { readonly stdout: string }> {
  return measure({ program: 'bash', args: [peer(script), ...args] });
}

/** The mirror that an operator would write. */
export function script(
  service: BenchService,
  directory: string,
  method: ScriptMethod,
  isFlushed: boolean,
): Promise<Sample> {
  return bash('mirror.sh', service.baseUrl, directory, method, ...(isFlushed ? ['flush'] : []));
}

/** Runs a program and then flushes the file system of a folder; the time of both. */
export async function measureFlushed(command: Command, folder: string): Promise<Sample> {
  const sample = await measure(command);
  const flush = await measure({ program: 'sync', args: ['-f', folder] });
  return {
    wallMs: sample.wallMs + flush.wallMs,
    cpuMs: (sample.cpuMs ?? 0) + (flush.cpuMs ?? 0),
    peakBytes: sample.peakBytes,
  };
}

/** Writes files of the same names and sizes from memory, and flushes them. */
export async function writeFromMemory(directory: string, files: readonly BenchFile[]): Promise<Sample> {
  const input = JSON.stringify(files.map(({ path, sizeBytes }) => [path, sizeBytes]));
  const sample = await measure({
    program: process.execPath,
    args: [peer('write-files.ts'), directory],
    input,
  });
  return { wallMs: Number(sample.stdout), cpuMs: null, peakBytes: null };
}
