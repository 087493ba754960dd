import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { CHAPTERS, readTopics, topicsOf, findTopic } from '../../../src/manual/chapters.ts';

const CHAPTERS_FOLDER = join(import.meta.dirname, '../../../src/manual');
const textOf = (name: string): string => readFileSync(join(CHAPTERS_FOLDER, `${name}.md`), 'utf8');
const MANUAL = CHAPTERS.map(textOf).join('\n');

describe('the chapters', () => {
  it('are the files that exist', () => {
    const files = readdirSync(CHAPTERS_FOLDER).filter((name) => name.endsWith('.md'));
    expect(files.sort()).toEqual(CHAPTERS.map((name) => `${name}.md`).sort());
  });

  it('link to files that exist', () => {
    for (const name of ['../../README', ...CHAPTERS]) {
      const links = textOf(name)
        .replaceAll(/```.*?```/gs, '')
        .matchAll(/(?:\]\(|src(?:set)?=")(?!https?:)([^)#"]+)/g);
      const from = dirname(join(CHAPTERS_FOLDER, `${name}.md`));
      for (const [, link = ''] of links) expect(existsSync(join(from, link)), `${name}: ${link}`).toBe(true);
    }
  });
});

describe('the topics of the manual', () => {
  const topics = readTopics();

  it('are its headings, each with the text below it', () => {
    const headings = MANUAL.replaceAll(/```.*?```/gs, '').match(/^#{1,2} .*$/gm) ?? [];
    const first = ['Try it', 'Five minutes to a mirror of your own service'];
    const titles = [...first, ...headings.map((line) => line.replace(/^#+ /, ''))];
    expect(topics.map(({ text }) => text.replace(/^#+ /, '').split('\n')[0])).toEqual(titles);
    expect(topics.every(({ text }) => text.includes('\n'))).toBe(true);
    expect(new Set(topics.map(({ name }) => name)).size).toBe(topics.length);
  });

  it.each(['on-disk', 'On disk', 'exit-codes', 'disk', 'five-minutes', 'complet'])(
    'are found by name, title, word or prefix: %j',
    (asked) => expect(findTopic(topics, asked)).toHaveProperty('text'),
  );

  it('that are unknown suggest the nearest, or nothing', () => {
    expect(findTopic(topics, 'setings')).toEqual(['settings']);
    expect(findTopic(topics, 'syncc', ['sync'])).toEqual(['sync']);
    expect(findTopic(topics, 'zzzzqq')).toEqual([]);
  });

  it('that fit several names suggest all of these', () => {
    const both = topicsOf('## Log level\n\n## Log format', 2);
    expect(findTopic(both, 'log')).toEqual(['log-level', 'log-format']);
  });

  it('ignore blocks of code and comments', () => {
    const text = '# A\n\n<!-- x -->\n```sh\n# no heading\n```\n\n## B\n\nb\n';
    expect(topicsOf(text, 1, 'a')).toEqual([
      { name: 'a', file: 'a', text: '# A\n\n```sh\n# no heading\n```\n\n## B\n\nb' },
      { name: 'b', file: undefined, text: '## B\n\nb' },
    ]);
  });
});
