import { byCodeUnits } from '../../mirror/store/manifest.ts';
import { isWell, type TargetStatus } from '../../app/target-status.ts';
import { flag, type GaugeFamily, inSeconds, type Sample, sole } from './metrics-gauges.ts';

/** The most targets that have series of their own: every one of them costs the scraper memory. */
const MOST_TARGETS = 1000;

const LABELS = ['repository', 'branch'] as const;

/**
 * The gauges of single targets. Those that are not well come first, then by name; beyond {@link MOST_TARGETS} they have no
 * series, and a gauge says how many are left out.
 */
export function targetFamilies(targets: readonly TargetStatus[]): readonly GaugeFamily[] {
  const shown = chosenTargets(targets).map((target) => ({ target, labels: labelsOf(target) }));
  const family = (
    name: string,
    help: string,
    value: (target: TargetStatus) => number | null,
  ): GaugeFamily => ({
    name,
    help,
    labels: LABELS,
    samples: () =>
      shown.flatMap(({ target, labels }): Sample[] => {
        const known = value(target);
        return known === null ? [] : [{ labels, value: known }];
      }),
  });
  return [
    family(
      'target_last_verified_timestamp_seconds',
      'When a target was last known to be what the service has.',
      ({ verifiedAtMs }) => inSeconds(verifiedAtMs),
    ),
    family('target_last_changed_timestamp_seconds', 'When a target was last published.', ({ changedAtMs }) =>
      inSeconds(changedAtMs),
    ),
    family(
      'target_last_compared_timestamp_seconds',
      'When the contents of a target were last compared whole.',
      ({ checkedAtMs }) => inSeconds(checkedAtMs),
    ),
    family('target_stale', '1 if a target was not verified within maxStaleness, else 0.', ({ isStale }) =>
      flag(isStale),
    ),
    family('target_failures', 'Failures of a target in a row.', ({ failure }) => failure?.attempts ?? 0),
    {
      name: 'target_state',
      help: 'Always 1; the label says which state a target is in.',
      labels: [...LABELS, 'state'],
      samples: () =>
        shown.map(({ target: { state }, labels }) => ({ labels: { ...labels, state }, value: 1 })),
    },
    {
      name: 'targets_left_out',
      help: 'Targets that have no series of their own, as there are too many; they count in all other metrics.',
      labels: [],
      samples: () => sole(targets.length - shown.length),
    },
  ];
}

/** Names of targets as below `mirror/`: unlike the service's own, no two are the same. */
function labelsOf({ target }: TargetStatus): { repository: string; branch: string } {
  const name = target.toWellFormed();
  const slash = name.lastIndexOf('/');
  return { repository: name.slice(0, Math.max(slash, 0)), branch: name.slice(slash + 1) };
}

function chosenTargets(targets: readonly TargetStatus[]): readonly TargetStatus[] {
  if (targets.length <= MOST_TARGETS) return targets;
  const rank = (target: TargetStatus): number => (isWell(target) ? 1 : 0);
  return targets
    .toSorted((a, b) => rank(a) - rank(b) || byCodeUnits(a.target, b.target))
    .slice(0, MOST_TARGETS);
}
