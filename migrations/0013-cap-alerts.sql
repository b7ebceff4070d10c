-- Reports the alert thresholds that a budget has crossed since the last report, and always the cap itself.
create or replace function report_thresholds(b budgets) returns void language plpgsql as $$
declare
  percent integer;
  threshold integer;
begin
  percent := least(1000, greatest(
    case when b.total_tokens_cap > 0 then b.tokens_used * 100 / b.total_tokens_cap when b.total_tokens_cap = 0 then 100 else 0 end,
    case when b.credits_micros > 0 then b.credits_spent_micros * 100 / b.credits_micros when b.credits_micros = 0 then 100 else 0 end));
  if percent <= b.threshold_fired then return; end if;
  for threshold in
    select value from (
      select value::text::integer as value from organizations, json_array_elements(alert_thresholds) value where organizations.id = b.org_id
      union select 100
    ) wanted where value > b.threshold_fired and value <= percent order by 1
  loop
    perform emit_webhook(b.org_id, case when threshold = 100 then 'usage.budget_exhausted' else 'usage.budget_threshold_reached' end,
      json_build_object('threshold', threshold, 'percent_used', percent));
    update budgets set threshold_fired = threshold where org_id = b.org_id;
  end loop;
end $$;
