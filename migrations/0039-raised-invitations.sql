-- Whoever made an invitation has its link. So it is given no role that they could not have granted: this is the highest they could.
-- Null for invitations from before, which can be given no higher role than they have.
alter table invitations add column if not exists highest_role text;
