import type { MirrorEvent } from '../../mirror/pass/events.ts';
import { selectsNothing } from '../../mirror/plan/selection-check.ts';

/**
 * Whether it is known which targets there are: a pass that began under the settings in force came to its end, and it had a
 * whole list of repositories. Before that, a mirror all the trees of which are fresh may still lack some.
 */
export interface Listed {
  readonly isListed: boolean;
  /** Whether the list of the running pass is whole. */
  readonly isWhole: boolean;
  /** Whether the settings changed what is to be mirrored since the running pass began. */
  readonly isOutdated: boolean;
  /** Whether the settings select nothing of what the service lists. */
  readonly selectsNothing: boolean;
}

/** What is known before the first pass: nothing. */
export const NOT_LISTED: Listed = {
  isListed: false,
  isWhole: false,
  isOutdated: false,
  selectsNothing: false,
};

/** Settings by which other targets may be there than those that the last pass looked at. */
const SELECTING = /^(?:service\.baseUrl|targets|repositories\.|branches\.)/;

/** What is known after an event. */
export function nextListed(listed: Listed, event: MirrorEvent): Listed {
  switch (event.name) {
    case 'settings.reloaded':
      return event.changed.some((name) => SELECTING.test(name))
        ? { ...listed, isListed: false, isOutdated: true }
        : listed;
    case 'pass.started':
      return { ...listed, isWhole: false, isOutdated: false };
    case 'listing.read':
      return { ...listed, isWhole: event.isWhole };
    case 'selection.checked':
      return { ...listed, selectsNothing: selectsNothing(event) };
    case 'pass.finished':
      return listed.isOutdated ? listed : { ...listed, isListed: listed.isWhole };
    default:
      return listed;
  }
}
