import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A panel of the dashboard. */
export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly uid: string };
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly {
    readonly refId: string;
    readonly datasource: { readonly uid: string };
    readonly expr: string;
  }[];
}

interface Variable {
  readonly name: string;
  readonly type: string;
  readonly definition?: string;
}

/** The dashboard for Grafana that is delivered. */
export interface Dashboard {
  readonly uid: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly Variable[] };
}

/** Reads the dashboard. */
export async function readDashboard(): Promise<Dashboard> {
  const file = join(import.meta.dirname, '../../config/grafana-dashboard.json');
  return JSON.parse(await readFile(file, 'utf8')) as Dashboard;
}

/** The queries of a dashboard, each with the title of its panel. */
export function queriesOf({ panels }: Dashboard): { title: string; query: string }[] {
  return panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, query: expr })));
}
