import { describe, expect, it } from 'vitest';

import { CHAPTERS } from '../../../../src/manual/chapters.ts';
import { problemsOf } from '../../../support/promql.ts';
import { readCases, readRules } from '../../../support/alerts.ts';
import { fullScrape } from '../../../support/scrapes.ts';

const rules = await readRules();
const cases = await readCases();
const known = await fullScrape();

/** The alerts that fire in a case, each with its labels. */
const fired = cases.flatMap(({ promql_expr_test: tests }) =>
  tests.flatMap(({ exp_samples: samples }) => samples.map(({ labels }) => labels)),
);

describe('the rules for alerts', () => {
  it.each(rules)('$alert asks for metrics, labels and values that there are', ({ expr }) => {
    expect(problemsOf(expr, known)).toEqual([]);
  });

  it.each(rules)('$alert says what happened, how bad that is, and where to read on', (rule) => {
    expect(['critical', 'warning', 'info']).toContain(rule.labels['severity']);
    expect(Object.keys(rule.annotations)).toEqual(['summary', 'description', 'runbook']);
    const [, chapter] = /^workbook-mirror help ([a-z-]+)$/.exec(rule.annotations['runbook'] ?? '') ?? [];
    expect(CHAPTERS).toContain(chapter);
  });

  it.each(rules)('$alert fires in a case, with the labels that its texts name', ({ alert, annotations }) => {
    const own = fired.filter((labels) => labels.includes(`alertname="${alert}",`));
    expect(own).not.toEqual([]);
    const named = [
      ...Object.values(annotations)
        .join('\n')
        .matchAll(/\$labels\.(\w+)/g),
    ];
    for (const labels of own)
      for (const [, label] of named) expect(labels).toMatch(new RegExp(`[{,]${label}="[^"]`));
  });

  it('each have a name of their own', () => {
    const names = rules.map(({ alert }) => alert);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('the cases of the rules', () => {
  it.each(cases)('$name: from series that there are', ({ input_series: series }) => {
    const problems = series.flatMap(({ series: one }) =>
      // A bare value of a counter is what a scrape has.
      problemsOf(one, known).filter((problem) => !problem.startsWith('a bare value')),
    );
    expect(problems).toEqual([]);
  });
});
