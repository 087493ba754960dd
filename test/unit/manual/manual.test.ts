import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { parseInline, parseMarkdown } from '../../../src/manual/markdown.ts';
import { renderManualPage } from '../../../src/manual/roff.ts';
import { renderForTerminal, shareWidth } from '../../../src/manual/terminal.ts';
import { findTopic, topicsOf } from '../../../src/manual/topics.ts';
import { CHAPTERS, topicNames } from '../../../src/manual/chapters.ts';
import { manualTopics } from '../../../src/cli/manual.ts';
import { say } from '../../../src/lib/text/terminal-text.ts';

const CHAPTERS_FOLDER = join(import.meta.dirname, '../../../src/manual');
const textOf = (name: string): string => readFileSync(join(CHAPTERS_FOLDER, `${name}.md`), 'utf8');
const MANUAL = CHAPTERS.map(textOf).join('\n');

function shown(text: string, width = 80): string {
  return String(renderForTerminal(parseMarkdown(text), { width, emphasise: null }));
}

function roff(text: string): string {
  return renderManualPage({ name: 'tool', version: '1.2.3', summary: 'does it' }, parseMarkdown(text));
}

describe('marks within a text', () => {
  it.each([
    ['a `b` c', ['a ', 'b', ' c'], ['plain', 'code', 'plain']],
    ['**a `b`**', ['a ', 'b'], ['strong', 'code']],
    ['*a* and _b_', ['a', ' and ', 'b'], ['emphasis', 'plain', 'emphasis']],
    ['a_b_c * d', ['a_b_c * d'], ['plain']],
    ['``a`b``', ['a`b'], ['code']],
    ['see [the page](https://example.com/x) here', ['see the page (https://example.com/x) here'], ['plain']],
    ['see [below](#log)', ['see below'], ['plain']],
    ['<https://example.com>', ['https://example.com'], ['plain']],
    [String.raw`\*a\*`, ['*a*'], ['plain']],
    ['`**/main` and `**`', ['**/main', ' and ', '**'], ['code', 'plain', 'code']],
  ])('are read: %j', (text, texts, styles) => {
    const spans = parseInline(text);
    expect(spans.map((span) => span.text)).toEqual(texts);
    expect(spans.map((span) => span.style)).toEqual(styles);
  });
});

describe('a text on a terminal', () => {
  it('is wrapped at its spaces, code in quotes', () => {
    expect(shown('one two three `four five` six', 20)).toBe('one two three `four\nfive` six\n');
  });

  it('breaks a word only where that alone is too long', () => {
    expect(shown('a abcdefghijklmnopqrstuvwxyz b', 20)).toBe('a\nabcdefghijklmnopqrst\nuvwxyz b\n');
  });

  it('emphasises without taking columns for it', () => {
    const text = renderForTerminal(parseMarkdown('**one two** three `fourteen`'), {
      width: 20,
      emphasise: (part, style) => (style === 'plain' ? say`${part}` : say`<${style}:${part}>`),
    });
    expect(String(text)).toBe('<strong:one two> three\n<code:fourteen>\n');
  });

  it('keeps the lines of code as they are, and those of lists under their marks', () => {
    const text = '- one\n  goes on\n- two:\n\n  ```sh\n  a  b\n  ```\n\n1. first\n   1. inner\n2. second';
    expect(shown(text)).toBe('• one goes on\n• two:\n\n    a  b\n\n1. first\n\n   1. inner\n\n2. second\n');
  });

  it('gives a table columns by what they hold, and wraps within them', () => {
    const text = '| name | does |\n| --- | :-: |\n| `a \\| b` | one two three four |\n| c | |';
    expect(shown(text, 24)).toBe(
      ['name    does', '──────  ───────────────', '`a |    one two three', 'b`      four', 'c', ''].join(
        '\n',
      ),
    );
  });

  it('stacks a table whose words have no room', () => {
    const text =
      '| setting | default | meaning |\n|---|---|---|\n| service.baseUrl | `127.0.0.1:9480` | where |';
    expect(shown(text, 24)).toBe('service.baseUrl\n  default:\n  `127.0.0.1:9480`\n  meaning: where\n');
  });

  it('leaves out pictures', () => {
    const both = '<picture>\n  <source srcset="dark.png">\n  <img alt="x" src="light.png">\n</picture>';
    expect(shown(`a\n\n${both}\n\n![x](x.svg)\n\nb`)).toBe('a\n\nb\n');
    expect(roff(`a\n\n${both}\n\n![x](x.svg)\n\nb`)).not.toContain('png');
  });

  it('leaves out comments', () => {
    expect(shown('a\n\n<!-- not\nthis -->\nb')).toBe('a\n\nb\n');
  });
});

describe('the columns of a table', () => {
  it.each([
    [[3, 10], [4, 20], 40, [10, 20]],
    [[3, 10], [4, 30], 20, [5, 14]],
    [[3, 10], [4, 30], 6, null],
  ])('%j and %j share %j', (first, second, width, widths) => {
    const need = ([least = 0, most = 0]: number[]) => ({ least, most });
    expect(shareWidth([need(first), need(second)], width)).toEqual(widths);
  });
});

describe('a manual page', () => {
  it('escapes what roff would take for its own', () => {
    const page = roff("## A b\n\n.start with `--flag` and \\\\ and it's “x”\n\n```\n.code\n'too\n```");
    expect(page).toContain('.TH TOOL 1 "" "tool 1.2.3"\n');
    expect(page).toContain('.SH NAME\ntool \\- does it\n.SH "A B"\n');
    expect(page).toContain('\\&.start with \\fB\\-\\-flag\\fR and \\e and it\\(aqs \\[u201C]x\\[u201D]\n');
    expect(page).toContain('\\&.code\n\\(aqtoo\n');
  });

  it('may break a long word behind its signs, but not in a block of code', () => {
    const word = `--name=service-api-key:/etc/workbook-mirror/${'a'.repeat(10)}`;
    expect(roff(`see \`${word}\``)).toContain('=\\:service\\-api\\-key:\\:/\\:etc/\\:workbook');
    expect(roff(`\`\`\`\n${word}\n\`\`\``)).not.toContain('\\:');
  });

  it('has a row of a table as its first cell and what belongs to it', () => {
    expect(roff('| a | b |\n|---|---|\n| x | y |')).toContain('.TP\nx\ny\n');
    expect(roff('| a | b | c |\n|---|---|---|\n| x | y | z |')).toContain('.TP\nx\nb: y\n.br\nc: z\n');
  });
});

describe('the chapters', () => {
  it('are the files that there are', () => {
    const files = readdirSync(CHAPTERS_FOLDER).filter((name) => name.endsWith('.md'));
    expect(files.sort()).toEqual(CHAPTERS.map((name) => `${name}.md`).sort());
  });

  it('lead to files that are there', () => {
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
  const topics = manualTopics();

  it('are its headings, each with what is below it', () => {
    const headings = MANUAL.replaceAll(/```.*?```/gs, '').match(/^#{1,2} .*$/gm) ?? [];
    const first = ['Try it', 'Five minutes to a mirror of your own service'];
    const titles = [...first, ...headings.map((line) => line.replace(/^#+ /, ''))];
    expect(topics.map(({ title }) => title)).toEqual(titles);
    expect(topicNames()).toEqual(topics.map(({ name }) => name));
    expect(new Set(topics.map(({ name }) => name)).size).toBe(topics.length);
  });

  it.each([
    'on-disk',
    'On disk',
    'exit-codes',
    'settings',
    'disk',
    'five-minutes',
    'complet',
    'troubleshooting',
    'server',
  ])('are found by name, title, word or the beginning of one: %j', (asked) => {
    expect(findTopic(topics, asked).topic).toBeDefined();
  });

  it('that are unknown lead to the nearest', () => {
    expect(findTopic(topics, 'setings')).toEqual({ topic: undefined, near: ['settings'] });
    expect(findTopic(topics, 'syncc', ['sync'])).toEqual({ topic: undefined, near: ['sync'] });
  });

  it('that are like none lead nowhere', () => {
    expect(findTopic(topics, 'zzzzqq')).toEqual({ topic: undefined, near: [] });
  });

  it('that several names fit lead to all of these', () => {
    const both = topicsOf(parseMarkdown('## Log level\n\n## Log format'));
    expect(findTopic(both, 'log')).toEqual({ topic: undefined, near: ['log-level', 'log-format'] });
  });

  it.each([24, 40, 80, 200])('fit a terminal of %j columns, but for code', (width) => {
    const withoutCode = MANUAL.replaceAll(/^ *```.*?^ *```$/gms, '');
    const lines = shown(withoutCode, width).split('\n');
    expect(lines.filter((line) => Array.from(line).length > width)).toEqual([]);
  });
});
