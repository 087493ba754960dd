import { describe, expect, it } from 'vitest';

import { UsageError } from '../support/command-line.ts';
import { readOptions } from './options.ts';

const SCENARIOS = ['kills/first/auto/', 'kills/mixed/auto/', 'errors/mixed/auto/'];

describe('the command line of the attacks', () => {
  it('asks for everything, without end, where it is empty', () => {
    expect(readOptions([], SCENARIOS)).toEqual({
      only: [],
      with: '',
      lastsMs: Infinity,
      point: null,
      triesAgain: false,
      figuresOnly: false,
      keepsWhole: false,
      journal: null,
    });
  });

  it('takes scenarios by what they begin with, and a time in minutes', () => {
    expect(
      readOptions(['--only', 'kills/', '--only=errors/mixed/', '--minutes', '0.5'], SCENARIOS),
    ).toMatchObject({ only: ['kills/', 'errors/mixed/'], lastsMs: 30_000 });
  });

  it.each([['--help'], ['-h']])('gives help for %s', (flag) => {
    expect(readOptions([flag], SCENARIOS)).toBeNull();
  });

  it.each([
    { wrong: 'a flag that does not exist', args: ['--kinds'], says: '--kinds' },
    { wrong: 'a word beside the flags', args: ['kills'], says: 'kills' },
    {
      wrong: 'scenarios that do not exist',
      args: ['--only', 'kill/'],
      says: '--only: no scenario begins with kill/',
    },
    { wrong: 'a point of no scenario', args: ['--point', 'nope'], says: '--point: there is no nope' },
    { wrong: 'a time that is none', args: ['--minutes', 'x'], says: '--minutes: a number' },
    { wrong: 'a time that is negative', args: ['--minutes=-1'], says: '--minutes: a number' },
  ])('refuses $wrong', ({ args, says }) => {
    const read = (): unknown => readOptions(args, SCENARIOS);
    expect(read).toThrow(UsageError);
    expect(read).toThrow(says);
  });
});
