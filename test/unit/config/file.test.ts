import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { fileLayer } from '../../../src/config/file.ts';
import { describeProblem } from '../../../src/config/problems.ts';

/** Values by name, and the problems as lines. */
function read(text: string | Uint8Array) {
  const layer = fileLayer(Buffer.from(text), '/c/f.yaml');
  const values = Object.fromEntries([...layer.values].map(([name, { value }]) => [name, value]));
  const { isComplete, problems } = layer;
  return { isComplete, values, lines: problems.map(describeProblem) };
}

describe('values', () => {
  it('are read as written', () => {
    const text = [
      'service:',
      '  apiKey: 0123',
      "  apiToken: '0x10'",
      '  timeout: 4',
      '  baseUrl: https://h/api # note',
      'directory: 2024-01-01',
      'timezone: "UTC"',
      'concurrency: 0o17',
      'branches:',
      '  include: [1, true, "a,b", 1.0]',
      '  exclude: []',
    ].join('\n');
    expect(read(text)).toMatchObject({
      isComplete: true,
      lines: [],
      values: {
        'service.apiKey': '0123',
        'service.apiToken': '0x10',
        'service.timeout': '4',
        'service.baseUrl': 'https://h/api',
        directory: '2024-01-01',
        timezone: 'UTC',
        concurrency: '0o17',
        'branches.include': ['1', 'true', 'a,b', '1.0'],
        'branches.exclude': [],
      },
    });
  });

  it('know their line, and the base of their paths', () => {
    const { values } = fileLayer(Buffer.from('\uFEFF# a\r\nlog:\r\n  level: info\r\n'), '/c/f.yaml');
    const source = { kind: 'file', detail: '/c/f.yaml:3' };
    expect(values.get('log.level')).toEqual({ value: 'info', source, base: '/c' });
  });

  it('may be absent: nothing, null, a section with everything commented out', () => {
    const commented = 'log:\n  # level: info\ndirectory:\nstate: ~\n';
    for (const text of ['', '# nothing\n', '---\n', 'null', commented, '{}'])
      expect(read(text)).toMatchObject({ isComplete: true, lines: [], values: {} });
  });

  it('may be anchored and in flow style, but not merged', () => {
    const { values } = read('directory: &d /x\nserve: {directory: *d}');
    expect(values).toEqual({ directory: '/x', 'serve.directory': '/x' });
    expect(read('x: &a {level: info}\nlog:\n  <<: *a').lines).toEqual([
      expect.stringMatching(/^x \(\/c\/f\.yaml:1\): unknown setting/),
      expect.stringMatching(/^log\.<< \(\/c\/f\.yaml:3\): unknown setting/),
    ]);
  });
});

describe('problems', () => {
  it.each([
    ['log:\n  levle: x', 'log.levle (/c/f.yaml:2): unknown setting; the nearest known one is log.level'],
    ['servce:\n  baseUrl: x', 'servce (/c/f.yaml:1): unknown setting; the nearest known one is service'],
    ['__proto__: x', '__proto__ (/c/f.yaml:1): unknown setting; the nearest known one is'],
    ['constructor: x', 'constructor (/c/f.yaml:1): unknown setting'],
    ['service.baseUrl: x', 'expected "baseUrl" on a line of its own, indented below "service:"'],
    ['serve: {networks: {allow: []}}', 'serve.networks (/c/f.yaml:1): this setting was removed'],
    ['service: x', 'service (/c/f.yaml:1): expected a section'],
    ['directory: {a: b}', 'directory (/c/f.yaml:1): expected one value'],
    ['targets: a/b', 'targets (/c/f.yaml:1): expected a list of texts'],
    ['targets: [[a]]', 'targets (/c/f.yaml:1): expected a list of texts'],
    ['hello', '/c/f.yaml:1: expected lines of the form "name: value" at the top'],
    ['- a', '/c/f.yaml:1: expected lines of the form'],
    ['~: b', '/c/f.yaml:1: expected a name that is a plain word'],
    ['log:\n\tlevel: info', '/c/f.yaml:2: not valid YAML: expected spaces for indentation, not tabs'],
    ['directory: a\nstate: sqlite\ndirectory: b', '/c/f.yaml:3: not valid YAML: this name was given before'],
    ['schedule: */5 * * * *', 'not valid YAML: something here does not belong; a value that starts with *'],
    ['branches:\n  include:\n    - **', 'branches.include (/c/f.yaml:2): expected quotes around a value'],
    ['directory: *x', 'directory (/c/f.yaml:1): expected quotes'],
    ['log: *x', 'log (/c/f.yaml:1): expected a section'],
    ['directory: !env HOME', '/c/f.yaml:1: not valid YAML: a value that starts with ! must be in quotes'],
    ['directory: @x', '/c/f.yaml:1: not valid YAML: a value that starts with @'],
    ['directory: "x', '/c/f.yaml:1: not valid YAML: a quote'],
    ['directory: a\n---\ndirectory: b', 'not valid YAML: multiple docs'],
    ['directory: a\n  apiKey:s3cret', 'directory (/c/f.yaml:1): expected a value on one line'],
    ['targets:\n  - a/b\n   c', 'targets (/c/f.yaml:1): expected a value on one line'],
  ])('%j', (text, expected) => {
    expect(read(text).lines.join('\n')).toContain(expected);
  });

  it('are reported for text with too deep nesting', () => {
    expect(read('['.repeat(50_000)).lines.join('\n')).toContain('not valid YAML: resource exhaustion');
  });

  it('are reported all together, each once', () => {
    expect(read('foo: 1\nlog: {levl: info}\ndirectory: [a]\nstate: a\nstate: b').lines).toHaveLength(4);
    expect(read('a: b: c: d').lines).toHaveLength(1);
  });

  it('include a file that is not UTF-8', () => {
    const lines = ['/c/f.yaml: expected a YAML file in UTF-8'];
    for (const hex of ['fffe6100', '613ae9'])
      expect(read(Buffer.from(hex, 'hex'))).toMatchObject({ isComplete: false, lines });
  });

  it.each([
    'service: {apiKey:s3cret}',
    'service:\n  apiKey:s3cret: x',
    'service:\n  apiKey: s3cret: x',
    'service:\n  apiKey: "s3cret',
    'service:\n  apiKey: "\\s3cret"',
    "service:\n  apiKey: 'a' s3cret",
    'service:\n  apiKey: *s3cret',
    'service:\n  apiKey: &s3cret',
    'service:\n  apiKey: !s3cret x',
    'service:\n  apiKey: @s3cret',
    'service:\n  apiKey: [s3cret]',
    'service:\n  apiKey: {s3cret: x}',
    'service:\n  timeout: 5s\n  apiKey:s3cret',
    'service:\n  apiKey:s3cret\n  timeout: 1',
    'service:\n  apiKeys: s3cret',
    'apiKey: s3cret',
    'service:\n\tapiKey: s3cret',
    's3cret\n...\ns3cret',
  ])('never show a value: %j', (text) => {
    const { lines, isComplete, values } = read(text);
    expect(lines.join('\n')).not.toContain('s3cret');
    expect(lines.length > 0 || !isComplete || values['service.apiKey'] === undefined).toBe(true);
  });

  it('are the only possible outcome of a bad text', () => {
    const line = fc.constantFrom(
      'service:',
      '  apiKey: x',
      'log:',
      '  level: [a',
      ' - b',
      'directory: /x',
      '? a',
      ': b',
      '*a',
      '&a',
      '"',
      '\t',
      '{',
      '}',
      '#',
      '---',
      '!!binary x',
      '%YAML 1.1',
      '<<: {a: 1}',
      'state: |',
    );
    const lines = fc.array(line).map((all) => all.join('\n'));
    const text = fc.oneof(lines, fc.string({ unit: 'binary' }));
    fc.assert(
      fc.property(text, (each) => void read(each)),
      { numRuns: 500 },
    );
  });
});
