import { useParams } from 'wouter';
import { Page } from '../../parts/page.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { useNavigate } from '../../server/queries.ts';
import { Credentials } from './credentials.tsx';
import { Members } from './members.tsx';
import { OrganizationSettings } from './organization.tsx';
import { SystemFacts } from './system.tsx';

const sections = [
  { value: 'models', label: 'Models', component: Credentials },
  { value: 'members', label: 'Members', component: Members },
  { value: 'organization', label: 'Organization', component: OrganizationSettings },
  { value: 'system', label: 'System', component: SystemFacts },
] as const;

export default function SettingsPage() {
  const navigate = useNavigate();
  const { section } = useParams<{ section?: string }>();
  const current = sections.find(({ value }) => value === section) ?? sections[0];
  const Current = current.component;
  return (
    <Page title="Settings" tab={`${current.label}, settings`}>
      <div className="mb-5 border-b border-line pb-2">
        <Tabs label="Settings" value={current.value} onChange={(next) => navigate(`/settings/${next}`)} tabs={sections} />
      </div>
      <Current />
    </Page>
  );
}
