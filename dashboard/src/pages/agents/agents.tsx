import { Page, Waiting } from '../../parts/page.tsx';
export default function Placeholder() {
  return (
    <Page title="agents">
      <Waiting />
    </Page>
  );
}
