import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';

import { addAllPendingFlags } from '../../../../src/cli/frame/declare.ts';
import { createProgram } from '../../../../src/cli/frame/program.ts';
import { runHere } from '../../../support/in-process.ts';

const program = createProgram();
await addAllPendingFlags(program);

function leaves(command: Command, path: readonly string[] = []): [string, Command][] {
  if (command.commands.length === 0) return [[path.join(' '), command]];
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]));
}

function linesOf(text: string): string[] {
  return text.trimEnd().split('\n');
}

describe('help', () => {
  it.each(leaves(program))('of %s fits a screen, and `help` of it has every flag', async (path, command) => {
    const short = await runHere([...path.split(' '), '--help']);
    expect(short.exitCode).toBe(0);
    expect(linesOf(short.stdout).length).toBeLessThanOrEqual(39);
    const whole = await runHere(['help', ...path.split(' ')]);
    expect(whole.exitCode).toBe(0);
    for (const { long, hidden } of command.options) if (!hidden) expect(whole.stdout).toContain(long);
    const last = linesOf(short.stdout).at(-1);
    expect(last?.includes(`help ${path}`)).toBe(short.stdout !== whole.stdout);
    const flags = linesOf(short.stdout).filter((line) => !line.includes('workbook-mirror'));
    expect(flags.filter((line) => line.length > 80)).toEqual([]);
  });

  it.each(['run', 'sync', 'plan', 'status', 'why', 'repos list', 'config show', 'serve', 'demo'])(
    'of %s has an example',
    async (path) => {
      expect((await runHere([...path.split(' '), '--help'])).stdout).toContain('Example');
    },
  );

  it('shows what people give on a line', async () => {
    const sync = (await runHere(['sync', '--help'])).stdout;
    for (const flag of ['--service-base-url', '--service-api-key-file', '--directory', '--publish'])
      expect(sync).toContain(flag);
    expect(sync).not.toContain('--hooks-timeout');
    const lease = (await runHere(['lease', 'release', '--help'])).stdout;
    expect(lease).toContain('--directory');
    expect(lease).not.toContain('--service-');
  });

  it.each([
    ['fresh', /^State: the target equalled/],
    ['late', /^\| late \(`stale`\) \| not verified for longer than `maxStaleness` \|/],
    ['target', /^A target is one branch/],
    ['pass', /^A pass asks the service/],
    ['needs you', /^State: someone must act/],
  ])('of the word %j begins with its meaning', async (word, meaning) => {
    expect((await runHere(['help', ...word.split(' ')])).stdout).toMatch(meaning);
  });

  it('of a command shows the chapter of that name, too', async () => {
    const { exitCode, stdout } = await runHere(['help', 'hooks']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^Usage: workbook-mirror hooks [^]*\n# Hooks\n/);
  });

  it.each([
    [['synk'], 'Did you mean sync?'],
    [['sync', '--direktory', 'x'], 'Did you mean --directory?'],
    [['help', 'setings'], 'Did you mean `help settings`?'],
    [['help', 'zzzzqq'], '  `workbook-mirror help` lists all of them.'],
  ])('suggests a near word, if there is one, for the wrong one of %j', async (args, suggestion) => {
    const { exitCode, stderr } = await runHere(args);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(suggestion);
  });

  it('has one short line for every command if none is named', async () => {
    const { exitCode, stderr } = await runHere([]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('A command is needed');
    expect(linesOf(stderr).length).toBeLessThanOrEqual(28);
    expect(linesOf(stderr).filter((line) => line.length > 80)).toEqual([]);
    for (const { summary } of program.commands.map((command) => ({ summary: command.summary() })))
      expect(stderr).toContain(summary);
    const whole = await runHere(['help']);
    expect(whole.stdout).toMatch(/Exit codes[^]*Topics/);
  });
});
