import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { CHAPTERS } from '../../../../src/manual/chapters.ts';
import { CASES_FILE, readRules, RULES_FILE } from '../../../support/alerts.ts';
import { fullScrape } from '../../../support/scrapes.ts';

const DASHBOARD_FILE = join(import.meta.dirname, '../../../../config/grafana-dashboard.json');
const rules = await readRules();
const { samples, families } = await fullScrape();
const known = new Set([...families.keys(), ...samples.map(({ name }) => name)]);

it.each([RULES_FILE, CASES_FILE, DASHBOARD_FILE])(
  'the queries of rules, cases and dashboard use only metrics that exist: %s',
  async (file) => {
    const text = await readFile(file, 'utf8');
    const names = new Set(text.match(/workbook_mirror_\w+/g));
    expect([...names].filter((name) => !known.has(name))).toEqual([]);
    expect(names.size).toBeGreaterThan(10);
  },
);

describe('the rules for alerts', () => {
  it.each(rules)('$alert says what happened, how severe that is, and where to read on', (rule) => {
    expect(['critical', 'warning', 'info']).toContain(rule.labels['severity']);
    expect(Object.keys(rule.annotations)).toEqual(['summary', 'description', 'runbook_url']);
    const [, chapter] = /\/src\/manual\/([a-z-]+)\.md$/.exec(rule.annotations['runbook_url'] ?? '') ?? [];
    expect(CHAPTERS).toContain(chapter);
  });

  it('each have at least one case in which they fire', async () => {
    const cases = await readFile(CASES_FILE, 'utf8');
    for (const { alert } of rules) expect(cases).toContain(`alertname="${alert}",`);
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });
});
