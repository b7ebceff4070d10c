import { type ModelSettings, readModelSettings } from '../../model-settings.ts';
import { ModelError } from '../model.ts';

/** The settings of a model call. Throws `ModelError` when one is unknown or has the wrong type. */
export function readSettings(provider: string, settings: Record<string, unknown>): ModelSettings {
  return readModelSettings(
    settings,
    (name, reason) => new ModelError('invalid_model_request', provider, `The model setting "${name}" ${reason}`),
  );
}
