import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { parse } from 'yaml';

const ROOT = join(import.meta.dirname, '../..');

/** The shipped rules. */
export const RULES_FILE = join(ROOT, 'config/alerts.yaml');

/** Their test data. */
export const CASES_FILE = join(ROOT, 'test/integration/daemon/metrics/alerts.cases.yaml');

/** An alert. */
export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** All rules. */
export async function readRules(): Promise<readonly AlertRule[]> {
  const { groups } = parse(await readFile(RULES_FILE, 'utf8')) as { groups: { rules: AlertRule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}
