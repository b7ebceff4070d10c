import { type ModelSettings, readModelSettings } from '../../model-settings.ts';
import { ModelError } from '../model.ts';

/** Those of a call. Throws `ModelError` when a setting has the wrong type. */
export function readSettings(provider: string, settings: Record<string, unknown>): ModelSettings {
  return readModelSettings(
    settings,
    (name, reason) => new ModelError('invalid_model_request', provider, `The model setting "${name}" ${reason}`),
  );
}
