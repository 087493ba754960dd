import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The dashboard for Grafana that is delivered. */
export const DASHBOARD_FILE = join(import.meta.dirname, '../../config/grafana-dashboard.json');

interface Dashboard {
  readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
}

/** The queries of the dashboard. */
export async function dashboardQueries(): Promise<string[]> {
  const { panels } = JSON.parse(await readFile(DASHBOARD_FILE, 'utf8')) as Dashboard;
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}
