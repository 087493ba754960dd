import { canStrike } from '../support/strace.ts';
import type { AttackPoint } from '../support/sweep.ts';
import { filling } from './full.ts';
import { canCutPower, canMount, JOURNALED, type JournaledKind } from './mounts.ts';
import { type Attacker, errorsOf, killsOf, type Opening, striking } from './points.ts';
import { cuttingPower } from './power.ts';
import type { Prepared } from './prepare.ts';
import { type Cell, CELLS } from './scenarios.ts';

/** One kind of attack at each of its points, on all scenarios. */
export interface Sweep {
  /** The beginning of its points' names. */
  readonly name: string;
  readonly cells: readonly Cell[];
  readonly open: Opening;
  readonly isPossible: () => boolean;
}

const FROM_REST = CELLS.filter(({ scenario }) => !scenario.isInterrupted);

/** Scenarios without power cuts. */
const NOT_CUT = new Set(['keep', 'repair', 'large-first', 'large-changed']);

const powerCuts = (Object.keys(JOURNALED) as JournaledKind[]).map((kind): Sweep => ({
  name: `power-${kind}`,
  cells: FROM_REST.filter(({ scenario }) => !NOT_CUT.has(scenario.name)),
  open: cuttingPower(kind),
  isPossible: () => canStrike && canCutPower(kind),
}));

/** All sweeps. */
export const SWEEPS: readonly Sweep[] = [
  { name: 'kills', cells: CELLS, open: striking(killsOf), isPossible: () => canStrike },
  { name: 'errors', cells: CELLS, open: striking(errorsOf), isPossible: () => canStrike },
  { name: 'full', cells: FROM_REST, open: filling, isPossible: () => canStrike && canMount },
  ...powerCuts,
];

/** The name of the only point where a program fails without an attack. */
export const NO_ATTACK = 'no-attack';

/** The names of a sweep's points on a scenario, without their beginning. */
export function namesOn(attacker: Attacker, prepared: Prepared): readonly string[] {
  return prepared.flaws.length > 0 ? [NO_ATTACK] : attacker.namesOn(prepared);
}

/** The beginning of the names of a sweep's points on a scenario. */
export function beginOf({ name }: Sweep, { id }: Cell): string {
  return `${name}/${id}/`;
}

/** A point of a sweep. @param name without its beginning */
export function pointOf(sweep: Sweep, attacker: Attacker, prepared: Prepared, name: string): AttackPoint {
  const { cell, flaws } = prepared;
  return {
    id: `${beginOf(sweep, cell)}${name}`,
    stratum: `${cell.id} ${name.split('/')[0]}`,
    attack: async (lane) =>
      name === NO_ATTACK ? { isReached: true, violations: flaws } : attacker.attack(prepared, name, lane),
  };
}
