/**
 * Which targets are being published. Code that compares a tree with its manifest sees by it whether either changed
 * meanwhile, as a publish changes the one a moment before the other.
 */
export interface PublishActivity {
  /** Notes that targets are about to change; returns a function to call when they have. */
  readonly begin: (paths: readonly string[]) => () => void;
  /** A number that changes with every change of a target; null while one is going on. */
  readonly stateOf: (path: string) => number | null;
}

/** Makes the note of what is being published. */
export function createActivity(): PublishActivity {
  const changes = new Map<string, number>();
  const active = new Map<string, number>();
  const add = (counts: Map<string, number>, path: string, by: number): void => {
    counts.set(path, (counts.get(path) ?? 0) + by);
  };
  return {
    begin: (paths) => {
      for (const path of paths) {
        add(changes, path, 1);
        add(active, path, 1);
      }
      return () => {
        for (const path of paths) add(active, path, -1);
      };
    },
    stateOf: (path) => ((active.get(path) ?? 0) > 0 ? null : (changes.get(path) ?? 0)),
  };
}
