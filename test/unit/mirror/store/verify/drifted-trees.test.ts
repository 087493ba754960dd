import { describe, expect, it } from 'vitest';

import { layoutOf } from '../../../../../src/mirror/store/layout.ts';
import { DriftedTrees } from '../../../../../src/mirror/store/verify/drifted-trees.ts';

function drifted(...paths: string[]): DriftedTrees {
  return new DriftedTrees(layoutOf('/nowhere'), () => Promise.resolve(), paths);
}

describe('trees that differ', () => {
  it('stay to be put right while a pull does it, and are done when that went well', () => {
    const trees = drifted('Plan/main');
    const end = trees.beginRepair('Plan/main');
    expect(trees.paths()).toEqual(['Plan/main']);
    expect(trees.has('Plan/main')).toBe(false);
    end(true);
    expect(trees.paths()).toEqual([]);
  });

  it('wait again when the pull did not put them right', () => {
    const trees = drifted('Plan/main');
    trees.beginRepair('Plan/main')(false);
    expect(trees.has('Plan/main')).toBe(true);
  });

  it('wait again when they were found to differ meanwhile', () => {
    const trees = drifted('Plan/main');
    const end = trees.beginRepair('Plan/main');
    trees.add('Plan/main');
    expect(trees.paths()).toEqual(['Plan/main']);
    end(true);
    expect(trees.has('Plan/main')).toBe(true);
  });

  it('are not made ones by a pull that fails for another reason', () => {
    const trees = drifted();
    trees.beginRepair('Plan/main')(false);
    expect(trees.paths()).toEqual([]);
  });

  it('keep their names when they move', () => {
    const trees = drifted('Plan/main', 'Budget/main');
    trees.move('Plan/main', 'Renamed/main');
    trees.move('Other/main', 'Elsewhere/main');
    expect(trees.paths().sort()).toEqual(['Budget/main', 'Renamed/main']);
  });
});
