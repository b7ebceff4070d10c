// The dashboard is built apart from the server and repeats some of its values.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as values from '../../../dashboard/src/server/values.ts';
import { auditActions } from '../../../src/audit/actions.ts';
import { providers } from '../../../src/release-config.ts';
import { searchQuery } from '../../../src/surfaces/dashboard/schemas.ts';
import { roleField } from '../../../src/surfaces/shared/schemas/fields.ts';

test('what the dashboard lets people choose from is what the server takes', () => {
  const { state, surface } = searchQuery.properties;
  assert.deepEqual(
    { ...values },
    {
      auditActions,
      providers: providers.filter((name) => name !== 'offline'),
      roles: roleField.enum,
      sessionStates: state.enum,
      surfaces: surface.enum,
    },
  );
});
