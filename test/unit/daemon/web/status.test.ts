import { execFileSync } from 'node:child_process';

import { describe, expect, it } from 'vitest';
import { z } from 'zod';

import { withCommand } from '../../../../src/daemon/status/status-service.ts';
import { statusJsonSchema, statusSchema } from '../../../../src/daemon/status/status-schema.ts';
import { statusBody } from '../../../../src/daemon/web/routes.ts';
import { MINUTE_MS, NOW_MS } from '../../../support/builders.ts';
import { daemonReport, eventfulReport, heldTarget } from '../../../support/report.ts';

function commandFor(target: string): string {
  return withCommand(heldTarget({ target })).approveCommand ?? '';
}

const objectSchema = z.object({
  type: z.literal('object'),
  properties: z.looseObject({}),
  required: z.array(z.string()).default([]),
});

describe('the status', () => {
  it.each([
    ['a quiet report', daemonReport()],
    ['one in which everything is there', eventfulReport()],
  ])('of %s matches the schema, and has nothing more', (_, report) => {
    const status: unknown = JSON.parse(Buffer.from(statusBody(report).bytes).toString());
    // Parsing drops fields that the schema does not know.
    const read = statusSchema.parse(status);
    expect(read).toStrictEqual(status);
    expect(read).toMatchObject(report);
  });

  it('has the command that approves a held deletion, and no other', () => {
    const commands = eventfulReport().targets.map((target) => withCommand(target).approveCommand);
    expect(commands.filter((command) => command !== undefined)).toEqual([
      String.raw`workbook-mirror approve 'Ada'\''s $(plan)/main'`,
    ]);
    expect(commandFor('Accounting/main')).toBe("workbook-mirror approve 'Accounting/main'");
  });

  it.each([
    '$(touch x)/main',
    '`touch x`/main',
    "it's/main",
    '"; touch x; "/main',
    '!!/$HOME ~/main',
    '--all/main',
  ])('gives a command that a shell reads as just the target, for %s', (target) => {
    const script = commandFor(target)
      .replace('workbook-mirror', 'for word in')
      .concat('; do :; done; printf %s "$word"');
    expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' })).toBe(target);
    const [, , end] = commandFor(target).split(' ');
    expect(end === '--').toBe(target.startsWith('-'));
  });

  it('keeps its tag while only the clock changes', () => {
    const report = daemonReport();
    const { etag } = statusBody(report);
    expect(etag).toMatch(/^W\/"[\w-]{22}"$/);
    const later = { ...report, nowMs: NOW_MS + MINUTE_MS, liveness: { ...report.liveness, silentMs: 5 } };
    expect(statusBody(later).etag).toBe(etag);
    expect(statusBody({ ...report, targets: [] }).etag).not.toBe(etag);
  });

  it('has a JSON Schema that allows more fields, and only one missing', () => {
    const schema = statusJsonSchema();
    const optional: string[] = [];
    JSON.stringify(schema, (_, value: unknown) => {
      const { properties = {}, required = [] } = objectSchema.safeParse(value).data ?? {};
      optional.push(...Object.keys(properties).filter((name) => !required.includes(name)));
      return value;
    });
    expect(optional).toEqual(['approveCommand']);
    expect(schema).toMatchObject({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { readiness: {}, live: {}, targets: { type: 'array' } },
    });
    expect(JSON.stringify(schema)).not.toContain('additionalProperties');
    expect(JSON.stringify(schema)).toContain('approveCommand');
  });
});
