import { describe, expect, it } from 'vitest';

import { type Panel, queriesOf, readDashboard } from '../../../support/dashboard.ts';
import { problemsOf } from '../../../support/promql.ts';
import { fullScrape } from '../../../support/scrapes.ts';

const dashboard = await readDashboard();
const known = await fullScrape();
const shown = dashboard.panels.filter(({ type }) => type !== 'row');

/** How wide the grid of Grafana is. */
const COLUMNS = 24;

function overlap({ gridPos: a }: Panel, { gridPos: b }: Panel): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

describe('the dashboard', () => {
  it.each(queriesOf(dashboard))('asks in "$title" for what there is: $query', ({ query }) => {
    expect(problemsOf(query, known)).toEqual([]);
  });

  it.each(shown)('shows $title with a description and a unit, from the source that is chosen', (panel) => {
    expect(panel.description).toMatch(/\.$/);
    expect(panel.fieldConfig?.defaults.unit).toBeTypeOf('string');
    const sources = [panel, ...(panel.targets ?? [])].map(({ datasource }) => datasource?.uid);
    expect(new Set(sources)).toEqual(new Set(['${datasource}']));
    const names = panel.targets?.map(({ refId }) => refId) ?? [];
    expect(names).not.toEqual([]);
    expect(new Set(names).size).toBe(names.length);
  });

  it('has panels in the grid, beside each other', () => {
    const { panels } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    for (const { gridPos, title } of panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(COLUMNS);
      expect(gridPos.w * gridPos.h, title).toBeGreaterThan(0);
    }
    const pairs = panels.flatMap((panel, at) => panels.slice(at + 1).map((other) => [panel, other] as const));
    const meeting = pairs.filter(([one, other]) => overlap(one, other));
    expect(meeting.map((pair) => pair.map(({ title }) => title))).toEqual([]);
  });

  it('uses the variables that it has', () => {
    const { list } = dashboard.templating;
    const text = JSON.stringify(dashboard);
    const used = new Set([...text.matchAll(/\$\{?(\w+)/g)].map(([, name = '']) => name));
    const ofGrafana = new Set(['__rate_interval', '__all']);
    expect([...used].filter((name) => !ofGrafana.has(name)).sort()).toEqual(
      list.map(({ name }) => name).sort(),
    );
    for (const { query } of queriesOf(dashboard))
      for (const name of ['job', 'instance']) expect(query).toContain(`${name}=~"$${name}"`);
    for (const { definition = '' } of list.filter(({ type }) => type === 'query')) {
      const [, series = ''] = /^label_values\((.*), \w+\)$/.exec(definition) ?? [];
      expect(problemsOf(series, known)).toEqual([]);
    }
  });
});
